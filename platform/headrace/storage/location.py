"""What tables need of the place where they lie, whichever kind it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.storage.object_path import ObjectPath

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from deltalake import DeltaTable

Location = Path | ObjectPath
"""A folder or a file of this machine, or a key of an object store."""


def storage_options(location: Location) -> dict[str, str] | None:
    """How delta-rs reaches it."""
    return location.store.for_delta() if isinstance(location, ObjectPath) else None


def delta_table(location: Location, version: int | None = None, *, files: bool = True) -> DeltaTable:
    """The Delta table there.

    Args:
        files: also which files it has, which takes longer the more there are.
    Raises:
        TableNotFoundError: there is none.
    """
    from deltalake import DeltaTable

    return DeltaTable(
        str(location), version=version, storage_options=storage_options(location), without_files=not files
    )


def is_delta_table(location: Location) -> bool:
    return (location / "_delta_log").is_dir()


def spark_path(location: Location) -> str:
    """Its name for Spark, whose client of object stores has a scheme of its own."""
    return f"s3a://{location.bucket}/{location.key}" if isinstance(location, ObjectPath) else str(location)


def arrow_place(location: Location) -> tuple[pafs.FileSystem, str]:
    """Its name for Arrow, and the file system that knows it."""
    if isinstance(location, ObjectPath):
        return location.store.for_arrow(), f"{location.bucket}/{location.key}"
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem(), str(location)


def replace_text(location: Location, text: str) -> None:
    """Write a file that is never seen half: killed in between, it has what it had before."""
    if isinstance(location, ObjectPath):
        location.write_text(text)
        return
    temporary = location.with_name(f"{location.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(location)


def append_text(location: Location, text: str) -> None:
    """Add to a file, which an object store must write anew: keep it short."""
    if isinstance(location, ObjectPath):
        before = location.read_text() if location.is_file() else ""
        location.write_text(before + text)
        return
    with location.open("a", encoding="utf-8") as file:
        file.write(text)


def share(source: Location, target: Location) -> bool:
    """Let a file that nobody changes be in a second place, too. Raises FileNotFoundError.

    Args:
        target: where there is none; of an object store, in the same bucket.
    Returns:
        Whether it takes no room there, being the same file. Object stores, which copy it themselves, cannot
        do that, nor can two file systems.
    """
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        source.copy(target)
        return False
    assert isinstance(source, Path) and isinstance(target, Path), (source, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)
        return False
    return True


def names(folder: Location) -> list[str]:
    """What lies in a folder directly; empty where there is none."""
    if isinstance(folder, ObjectPath):
        return folder.names()
    try:
        return os.listdir(folder)  # noqa: PTH208 (a Delta log may have very many entries)
    except FileNotFoundError:
        return []


def remove_tree(folder: Location) -> None:
    """Everything below it. What is gone already is no error."""
    if isinstance(folder, ObjectPath):
        folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=True)
