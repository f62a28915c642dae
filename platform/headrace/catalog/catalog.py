"""The catalog: what each table shall do, and what it was last seen doing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, cast

import sqlalchemy as sa

from headrace.catalog.alterations import Alterations
from headrace.catalog.readers import Readers
from headrace.catalog.schema import (
    SCHEMA_VERSION,
    alteration,
    materialized_table,
    metadata,
    open_engine,
    reader,
    schema_version,
)
from headrace.declared import CATALOG
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.results import State
from headrace.spec.model import RefreshMode, TableName, TableSpec

Desired = Literal["RUNNING", "SUSPENDED"]

_DESIRED = ("RUNNING", "SUSPENDED")


@dataclass(frozen=True)
class CatalogRow:
    """One table as the catalog has it."""

    name: str
    definition: str
    definition_hash: str
    freshness_seconds: float | None
    mode: RefreshMode
    desired: Desired
    state: State
    error: str | None
    updated_at: datetime


class Catalog:
    """Desired and observed state of every table. Thread-safe; the state survives the process.

    Args:
        url: an SQLAlchemy URL, e.g. `sqlite:////warehouse/state/catalog.db`.
    """

    def __init__(self, url: str) -> None:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = open_engine(parsed)
        self._create()
        self.readers = Readers(self._engine)
        self.alterations = Alterations(self._engine)

    @classmethod
    def in_directory(cls, state: Path) -> Self:
        """The default catalog: a file in the warehouse's state directory."""
        return cls(f"sqlite:///{state / CATALOG}")

    def register(self, spec: TableSpec, mode: RefreshMode) -> None:
        """Record a table's current definition. What a person asked of it (`desired`) is kept."""
        definition = spec.definition or spec.query
        values = {
            "definition": definition,
            "definition_hash": hashlib.sha256(definition.encode()).hexdigest(),
            "freshness_seconds": None if spec.freshness is None else spec.freshness.total_seconds(),
            "mode": str(mode),
            "updated_at": _now(),
        }
        name = str(spec.name)
        t = materialized_table
        with self._engine.begin() as connection:
            if connection.execute(sa.update(t).where(t.c.name == name).values(values)).rowcount == 0:
                new = {"name": name, "desired": "RUNNING", "state": "INITIALIZING", "error": None}
                connection.execute(sa.insert(t).values(new | values))

    def drop(self, name: TableName | str) -> None:
        """Forget a table, its readers and what statements have set of it."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(materialized_table).where(materialized_table.c.name == str(name)))
            for table in (reader, alteration):
                connection.execute(sa.delete(table).where(table.c.table_name == str(name)))

    def desired(self, name: TableName | str) -> Desired:
        """What the table shall do."""
        return self.row(name).desired

    def set_desired(self, name: TableName | str, desired: Desired) -> None:
        """Ask the table to run or to rest."""
        if desired not in _DESIRED:
            raise ValueError(f"desired state must be one of {_DESIRED}, not `{desired}`")
        self._update(name, {"desired": desired, "updated_at": _now()})

    def observe(self, name: TableName | str, state: State, error: str | None = None) -> None:
        """Record what the table was seen doing. Cheap to call again with the same state."""
        row = self.row(name)
        if (row.state, row.error) != (state, error):
            self._update(name, {"state": state, "error": error, "updated_at": _now()})

    def row(self, name: TableName | str) -> CatalogRow:
        """One table's row."""
        t = materialized_table
        with self._read() as connection:
            found = connection.execute(sa.select(t).where(t.c.name == str(name))).mappings().one_or_none()
        if found is None:
            raise self._unknown(name)
        return _row(found)

    def rows(self) -> list[CatalogRow]:
        """Every table, by name."""
        with self._read() as connection:
            select = sa.select(materialized_table).order_by(materialized_table.c.name)
            return [_row(r) for r in connection.execute(select).mappings()]

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._engine.dispose()

    def _read(self) -> sa.Connection:
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def _update(self, name: TableName | str, values: Mapping[str, object]) -> None:
        t = materialized_table
        with self._engine.begin() as connection:
            changed = connection.execute(sa.update(t).where(t.c.name == str(name)).values(dict(values)))
        if changed.rowcount == 0:
            raise self._unknown(name)

    def _unknown(self, name: TableName | str) -> UnknownName:
        hint = did_you_mean(str(name), (row.name for row in self.rows()))
        return UnknownName(f"no table `{name}` in the catalog" + (f": {hint}" if hint else ""))

    def _create(self) -> None:
        with self._engine.begin() as connection:
            metadata.create_all(connection)
            version = connection.execute(sa.select(schema_version.c.version)).scalar_one_or_none()
            if version is None:
                connection.execute(sa.insert(schema_version).values(id=1, version=SCHEMA_VERSION))
            elif version != SCHEMA_VERSION:
                where = self._engine.url.render_as_string()
                raise TerminalError(
                    f"the catalog {where} has schema version {version}, this headrace knows version "
                    f"{SCHEMA_VERSION}: run the headrace that wrote it, or set another `data` directory"
                )


def _row(values: sa.RowMapping) -> CatalogRow:
    row = dict(values)
    row["mode"] = RefreshMode(row["mode"])
    row["updated_at"] = cast(datetime, row["updated_at"]).replace(tzinfo=UTC)
    return CatalogRow(**row)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)  # SQLite keeps no time zone
