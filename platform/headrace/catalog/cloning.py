"""A catalog's rows in another catalog, while its owner goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from headrace.catalog.catalog import Catalog
from headrace.catalog.database import reading
from headrace.catalog.migrate import HEAD, revision
from headrace.catalog.schema import cost, materialized_table, metadata, open_engine, reader
from headrace.errors import TerminalError

_LEFT = (reader, cost)
"""Who reads the one's tables does not read the other's, and what work has cost was done for the one."""


def definitions(url: str) -> dict[str, str]:
    """The applied text of each table, by its name.

    Args:
        url: SQLAlchemy URL of a catalog; it is only read.
    Raises:
        TerminalError: there is none, or another version of headrace wrote it.
    """
    t = materialized_table.c
    with _reading(url) as connection:
        return {row.name: row.definition for row in connection.execute(sa.select(t.name, t.definition))}


def copy_catalog(source: str, target: str) -> None:
    """Copy what a catalog knows of its tables.

    Args:
        source, target: SQLAlchemy URLs; there is none at the target.
    Raises:
        TerminalError: as of `definitions`.
    """
    with _reading(source) as connection:
        wanted = (table for table in metadata.sorted_tables if table not in _LEFT)
        known = [(table, _rows(connection, table)) for table in wanted]
    Catalog(target).close()
    engine = open_engine(sa.make_url(target))
    with engine.begin() as connection:
        for table, rows in known:
            if rows:
                connection.execute(sa.insert(table), rows)
    engine.dispose()


def _rows(connection: sa.Connection, table: sa.Table) -> list[dict[str, object]]:
    """In the order in which they were written; the database numbers them itself."""
    counted = {column.name for column in table.columns if column.autoincrement is True}
    found = connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()
    return [{name: value for name, value in row.items() if name not in counted} for row in found]


@contextmanager
def _reading(url: str) -> Iterator[sa.Connection]:
    parsed = sa.make_url(url)
    shown = parsed.render_as_string()
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise TerminalError(f"there is no catalog {shown}: no table has run there. Next: `headrace up` there")
    engine = open_engine(parsed)
    try:
        with reading(engine) as connection:
            if (found := revision(connection)) != HEAD:
                raise TerminalError(
                    f"the catalog {shown} has revision {found}, this headrace writes {HEAD}. Next: run the "
                    "same headrace in both"
                )
            yield connection
    except sa.exc.DBAPIError as error:
        raise TerminalError(f"the catalog {shown} cannot be read: {error.orig}") from error
    finally:
        engine.dispose()
