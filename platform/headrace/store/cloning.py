"""A table in a second place, as it is now, while its writer goes on: logs and data files are shared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from headrace.errors import TransientError
from headrace.storage.location import Location, delta_table, is_delta_table, names, remove_tree, share
from headrace.store.delta.files import data_files
from headrace.store.delta.retained import FILE as RETAINED
from headrace.store.delta.retained import Retained
from headrace.store.record.commits import latest

ATTEMPTS = 5
"""Times that maintenance of the table may clean its log just then."""

AT_ONCE = 16
"""Files: in an object store each is waited for."""

_PARTS = ("snapshot", "changelog", "tombstones")
"""In the order that a crash would leave them: the snapshot is made of changes before it, and what retention
takes out of the changelog is in the tombstones by then."""

_ENTRY = re.compile(r"(\d{20})\.")


@dataclass(frozen=True)
class Shared:
    """Data files of a clone.

    Args:
        linked: that take no room, as they are the same files.
        copied: the others.
    """

    linked: int = 0
    copied: int = 0

    def __add__(self, other: Shared) -> Shared:
        return Shared(self.linked + other.linked, self.copied + other.copied)


def clone_table(source: Location, target: Location) -> Shared:
    """Clone a materialized table: the folder of its Delta tables, and of what is noted of them.

    What is written meanwhile may be in it or not; it is whole either way, as after a crash.

    Raises:
        TransientError: its log was cleaned again and again.
    """
    for name in names(source):
        if name.endswith(".jsonl"):  # notes: before the changelog, so that they tell of no version beyond it
            text = (source / name).read_text(encoding="utf-8")
            target.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
    parts = (part for part in _PARTS if is_delta_table(source / part))
    shared = sum((clone_delta(source / part, target / part) for part in parts), Shared())
    _share_retained(source, target)
    return shared


def _share_retained(source: Location, target: Location) -> None:
    """What retention has removed, as of after the files: it is written before they go, so none is missed."""
    found = latest(target / "changelog")
    if found is not None and (source / RETAINED).is_file():
        retained = Retained.load(source)
        known = tuple((version, at) for version, at in retained.marks if version <= found[1].version)
        replace(retained, marks=known).save(target)


def clone_delta(source: Location, target: Location) -> Shared:
    """Clone a Delta table: its newest version, and the older ones that its files still make up.

    Data files and log entries are never changed, so both tables can have them; either deletes its own names.

    Raises:
        TransientError: its log was cleaned again and again.
    """
    for _ in range(ATTEMPTS):
        try:
            version = _share_log(source / "_delta_log", target / "_delta_log")
        except FileNotFoundError:  # an entry went; what a later checkpoint holds of it is not here
            remove_tree(target)
            continue
        shared = _share(source, target, data_files(source))
        assert delta_table(target, files=False).version() == version
        return shared
    raise TransientError(f"{source}: its log was cleaned while it was cloned. Next: try again")


def _share_log(source: Location, target: Location) -> int:
    """Its entries without `_last_checkpoint`, which only says where to begin, and is another one by now.

    Returns:
        The newest version. The listing may have missed one that came in the middle of it: none after a gap.
    """
    entries = [(int(m[1]), name) for name in names(source) if (m := _ENTRY.match(name))]
    commits = {version for version, name in entries if name.endswith(".json")}
    newest = next(version for version in sorted(commits) if version + 1 not in commits)
    wanted = [name for version, name in entries if version <= newest]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: share(source / name, target / name), wanted))
    return newest


def _share(source: Location, target: Location, files: Iterable[Location]) -> Shared:
    def one(file: Location) -> Shared:
        try:
            linked = share(file, target / str(file).removeprefix(f"{source}/"))
        except FileNotFoundError:  # of an old version: deleted since it was listed
            return Shared()
        return Shared(linked=1) if linked else Shared(copied=1)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(one, files), Shared())
