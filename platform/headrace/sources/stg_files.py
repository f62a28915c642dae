"""Layer files of captured tables that have none, where a source file asks for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import HeadraceError, SpecError, TerminalError
from headrace.settings import Settings
from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.sources.marks import MARKER_TABLE
from headrace.spec.connector import Connector, load_connector
from headrace.spec.edit import FileEdit, write
from headrace.spec.model import TableName
from headrace.spec.source_file import SourceFile, source_files
from headrace.spec.table import load_table

log = logging.getLogger(__name__)


def new_tables(
    source: SourceFile, connector: Connector, dsn: str, taken: Mapping[TableName, tuple[str, str] | None]
) -> dict[TableName, str]:
    """The layer files of captured tables that no stg table reads and whose changes are published.

    Args:
        taken: see `SourceFile.layer_files`.
    Raises:
        TransientError: the source does not answer.
        TerminalError: the role may not publish a table.
        SpecError: a table's name is none, or that of another one.
    """
    capture = database(dsn).capture(connector)
    tables, there = {t for t in capture.tables if t[1] != MARKER_TABLE}, capture.sent
    if not source.layer_files(tables, taken):
        return {}
    if not tables <= there and database(dsn).prepare(connector):
        there = frozenset(tables)
    for schema, table in sorted(tables - there):
        log.debug("%s.%s of %s is not published", schema, table, connector.name)
    return source.layer_files(tables & there, taken)


def write_missing(settings: Settings) -> list[Path]:
    """Write the layer files that source files ask for, as far as the sources answer.

    Returns:
        Those written.
    Raises:
        SpecError: a source file, or a name that it gives, is wrong.
        TerminalError: there is no layer file at all.
    """
    found: list[Path] = []
    sources, waiting = source_files(settings.project), ""
    for source in sources:
        path = settings.connectors / f"{source.source}.json"
        if not path.is_file():
            raise SpecError(
                f"there is no connector `{source.source}`",
                source.location,
                f"write {path}, or rename the file",
            )
        connector = load_connector(path)
        try:
            dsn = source_dsn(connector, settings.source_environment())
            texts = new_tables(source, connector, dsn, _taken(settings.project, source))
        except SpecError:
            raise
        except HeadraceError as error:
            log.warning("%s waits: %s", source.path, error)
            waiting = f": {error}"
            continue
        for name, text in texts.items():
            file = settings.project / "layers" / "stg" / f"{name.table}.sql"
            write(FileEdit(file, None, text))
            found.append(file)
    layers = settings.project / "layers"
    if sources and not any(layers.glob("*/*.sql")):
        raise TerminalError(
            f"{layers}: there is no layer file, and no captured table for one{waiting}. Next: create the "
            "source's tables, then `headrace up`"
        )
    return found


def _taken(directory: Path, source: SourceFile) -> dict[TableName, tuple[str, str] | None]:
    """The stg tables of the files, and what of the source each reads; a wrong file's is not known."""
    found: dict[TableName, tuple[str, str] | None] = {}
    for path in sorted((directory / "layers" / "stg").glob("*.sql")):
        reads = None
        try:
            reads = source.read_by(load_table(path))
        except SpecError as error:  # whoever loads the project says it
            log.debug("%s", error)
        found[TableName("stg", path.stem.lower())] = reads
    return found
