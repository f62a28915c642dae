"""Another environment of a project: its tables as they are now, which go on from there by its own files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from headrace.catalog import Catalog
from headrace.catalog.cloning import copy_catalog, definitions
from headrace.declared import applied_tables
from headrace.environments import settings_file
from headrace.errors import TerminalError, TransientError
from headrace.services.places import keep_private
from headrace.services.stack import Stack
from headrace.settings import CATALOG_FILE, Settings
from headrace.sources.records import FOLDER as RECORDS
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.spec.model import TableName, TableSpec
from headrace.storage.location import Location, is_delta_table, names, remove_tree
from headrace.storage.object_path import ObjectPath
from headrace.store.cloning import Shared, clone_delta, clone_table
from headrace.store.lease import servers

MARK = "_environment"
"""File of a warehouse that is a clone, and may be deleted as one."""


@dataclass(frozen=True)
class Cloned:
    """
    Args:
        settings: of the environment.
        tables: how many.
        files: of their data.
    """

    settings: Settings
    tables: int
    files: Shared


def clone(
    source: Settings,
    project: Path,
    name: str,
    *,
    replace: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Cloned:
    """Clone a project's tables and catalog into another checkout of it, while its server goes on.

    Args:
        source: settings of the project that is cloned; nothing of it is changed.
        project: directory of the checkout.
        name: of the environment.
        replace: delete an environment that is there.
        report: is told what happens.
    Raises:
        TerminalError: there is nothing to clone, or something in the way.
        TransientError: the project was changed meanwhile.
    """
    if project.resolve() == source.project:
        raise TerminalError(
            f"{project} cannot be a clone of itself. Next: check its repository out elsewhere, then there "
            f"`headrace clone {source.project}`"
        )
    applied = definitions(source.catalog)
    _make_room(source, project, replace=replace)
    values = settings_file.values_of(source, name) | settings_file.free_ports(source)
    file = settings_file.write(project, source, values)
    try:
        settings = _own_settings(source, project)
        try:
            tables, files = _fill(source, settings, report)
            if definitions(source.catalog) != applied:
                raise TransientError(f"{source.project} was changed while it was cloned. Next: try again")
        except BaseException:
            _remove(settings)
            raise
    except BaseException:
        file.unlink()
        raise
    return Cloned(settings, tables, files)


def _fill(source: Settings, settings: Settings, report: Callable[[str], None]) -> tuple[int, Shared]:
    """
    Returns:
        How many tables there are, and the files of their data.
    """
    keep_private(settings)
    (settings.warehouse / MARK).write_text(f"{source.warehouse}\n")
    copy_catalog(source.catalog, settings.catalog)
    with closing(Catalog(settings.catalog)) as catalog:
        specs = applied_tables(catalog, settings.project)
    count, files = 0, Shared()
    for name in _readers_first(specs):
        place = source.warehouse / name.layer / name.table
        if is_delta_table(place / "changelog"):
            files += clone_table(place, settings.warehouse / name.layer / name.table)
            count += 1
            report(f"{name}")
    for letters, target in zip(_letters(source), _letters(settings), strict=True):
        if is_delta_table(letters):
            clone_delta(letters, target)
    _copy(source.warehouse / RECORDS, settings.warehouse / RECORDS)
    return count, files


def _readers_first(specs: dict[TableName, TableSpec]) -> list[TableName]:
    """A table's upstreams after it: they are at the version that it has seen, or further."""
    reads = {n: [u for u in s.upstreams if isinstance(u, TableName) and u in specs] for n, s in specs.items()}
    return list(TopologicalSorter(reads).static_order())[::-1]


def _letters(settings: Settings) -> tuple[Location, Location]:
    """Dead letters are written before the offsets after them are: they are cloned after."""
    return DeadLetters(settings.warehouse / "dead_letters").places


def _copy(folder: Location, target: Location) -> None:
    for name in names(folder):
        if name.endswith(".json"):
            target.mkdir(parents=True, exist_ok=True)
            (target / name).write_text((folder / name).read_text(encoding="utf-8"), encoding="utf-8")
        elif (folder / name).is_dir():
            _copy(folder / name, target / name)


def _make_room(source: Settings, project: Path, *, replace: bool) -> None:
    """Let an environment go that is there. Raises TerminalError where it may not."""
    settings = Settings.load(project)
    if not names(settings.warehouse) and not _catalog_file(settings).is_file():
        return
    if not settings.environment:
        raise TerminalError(
            f"{project} has tables of its own in {settings.warehouse}, and is no environment: nothing takes "
            "their place. Next: clone into another checkout"
        )
    _refuse_shared(source, settings)
    if not replace:
        raise TerminalError(
            f"{project} has the environment `{settings.environment}`. Next: `headrace down`, then "
            "`headrace clone … --replace` deletes it first"
        )
    if Stack(settings).supervisor.running or servers(settings.warehouse):
        raise TerminalError(f"the environment in {project} runs. Next: `headrace down` there")
    _remove(settings)


def _remove(settings: Settings) -> None:
    """Delete what `_fill` has made, or a part of it, and nothing else."""
    if (settings.warehouse / MARK).is_file():
        remove_tree(settings.warehouse)
        for file in _catalog_file(settings).parent.glob(f"{CATALOG_FILE}*"):
            file.unlink()


def _catalog_file(settings: Settings) -> Path:
    return settings.state / CATALOG_FILE


def _own_settings(source: Settings, project: Path) -> Settings:
    """Those of the environment. Raises TerminalError where it would not be one."""
    settings = Settings.load(project)
    _refuse_shared(source, settings)
    if names(settings.warehouse):
        raise TerminalError(
            f"there is something in {settings.warehouse} already. Next: unset HEADRACE_WAREHOUSE_URL"
        )
    if settings.catalog_url is not None:
        raise TerminalError("an environment keeps its catalog in `data`. Next: unset HEADRACE_CATALOG_URL")
    if _bucket(settings.warehouse) != _bucket(source.warehouse):
        raise TerminalError(
            f"an environment's tables lie beside {source.warehouse}. Next: unset HEADRACE_WAREHOUSE_URL"
        )
    return settings


def _bucket(place: Location) -> str | None:
    return place.bucket if isinstance(place, ObjectPath) else None


def _refuse_shared(source: Settings, settings: Settings) -> None:
    """Raise TerminalError where both have the same place: a variable counts more than a file."""
    for what, variable in (("data", "DATA"), ("warehouse", "WAREHOUSE_URL"), ("catalog", "CATALOG_URL")):
        if str(getattr(source, what)) == str(getattr(settings, what)):
            raise TerminalError(
                f"the environment would have the `{what}` of {source.project}. Next: unset "
                f"HEADRACE_{variable}"
            )
