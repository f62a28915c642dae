"""The catalog: what each table shall do, and what it was last seen doing."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Self, cast

import sqlalchemy as sa

from headrace.catalog.alterations import Alterations
from headrace.catalog.captured import CapturedTables
from headrace.catalog.completions import Completions
from headrace.catalog.costs import Costs
from headrace.catalog.database import reading, utc_now
from headrace.catalog.decisions import Decisions
from headrace.catalog.evaluations import Evaluations
from headrace.catalog.former import FormerDefinitions
from headrace.catalog.migrate import migrate
from headrace.catalog.readers import Readers
from headrace.catalog.schema import (
    alteration,
    check_evaluation,
    completed_partition,
    completion,
    decision,
    former_definition,
    materialized_table,
    open_engine,
    reader,
    refresh_workflow,
)
from headrace.catalog.workflows import Workflows
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.results import State
from headrace.spec.alteration import freshness_text
from headrace.spec.model import RefreshMode, TableName, TableSpec

Desired = Literal["RUNNING", "SUSPENDED"]

log = logging.getLogger(__name__)

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

    What one process has written of these it need not read again: it is the only one that writes them, and it
    asks for each table several times a second.

    Args:
        url: an SQLAlchemy URL, e.g. `sqlite:////warehouse/state/catalog.db`.
    Raises:
        TerminalError: the database does not answer, or a newer headrace wrote the catalog.
    """

    def __init__(self, url: str) -> None:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = open_engine(parsed)
        self._unrecorded: dict[str, tuple[State, str | None]] = {}
        self._wanted: dict[str, Desired] = {}
        self._observed: dict[str, tuple[State, str | None]] = {}
        self._writing = threading.Lock()  # what is remembered is what was written last
        self._migrate()
        self.readers = Readers(self._engine)
        self.alterations = Alterations(self._engine)
        self.decisions = Decisions(self._engine)
        self.former = FormerDefinitions(self._engine)
        self.workflows = Workflows(self._engine)
        self.completions = Completions(self._engine)
        self.captured = CapturedTables(self._engine)
        self.evaluations = Evaluations(self._engine)
        self.costs = Costs(self._engine)

    @classmethod
    def existing(cls, url: str) -> Self | None:
        """The catalog there, None where there is none; none is made.

        Raises:
            TerminalError: as the constructor does.
        """
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return cls(url) if parsed.database and Path(parsed.database).is_file() else None
        engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        with _answering(parsed):
            there = sa.inspect(engine).has_table(materialized_table.name)
        return cls(url) if there else None

    def register(self, spec: TableSpec, mode: RefreshMode, why: str = "") -> None:
        """Record a table's current definition. What a person asked of it (`desired`) is kept.

        Another freshness or mode than before is a decision, and recorded as one. Cheap to call again with the
        same.

        Args:
            why: of the mode.
        """
        definition = spec.definition or spec.query
        values: dict[str, object] = {
            "definition": definition,
            "definition_hash": hashlib.sha256(definition.encode()).hexdigest(),
            "freshness_seconds": None if spec.freshness is None else spec.freshness.total_seconds(),
            "mode": str(mode),
        }
        name, t = str(spec.name), materialized_table
        with reading(self._engine) as connection:
            before = connection.execute(sa.select(t).where(t.c.name == name)).mappings().one_or_none()
        if before is not None and all(before[key] == value for key, value in values.items()):
            return
        values["updated_at"] = utc_now()
        with self._engine.begin() as connection:
            if connection.execute(sa.update(t).where(t.c.name == name).values(values)).rowcount == 0:
                new = {"name": name, "desired": "RUNNING", "state": "INITIALIZING", "error": None}
                connection.execute(sa.insert(t).values(new | values))
            if before is not None and before["definition"] != definition:
                self.former.remember(connection, spec.name, before["definition"])
        if before is not None:
            self._decided(spec, before, values, why)

    def _decided(self, spec: TableSpec, was: sa.RowMapping, now: Mapping[str, object], why: str) -> None:
        seconds = was["freshness_seconds"]
        if seconds != now["freshness_seconds"]:
            before = freshness_text(None if seconds is None else timedelta(seconds=seconds))
            after = freshness_text(spec.freshness)
            self.decisions.record(spec.name, "FRESHNESS", before, after, spec.freshness_origin)
        if was["mode"] != now["mode"]:
            self.decisions.record(spec.name, "REFRESH_MODE", was["mode"], str(now["mode"]), why)

    def drop(self, name: TableName | str) -> None:
        """Forget a table and all that is known of it."""
        with self._writing, self._engine.begin() as connection:
            for known_of in (self._unrecorded, self._wanted, self._observed):
                known_of.pop(str(name), None)
            connection.execute(sa.delete(materialized_table).where(materialized_table.c.name == str(name)))
            known = (reader, alteration, decision, former_definition, refresh_workflow)
            for table in (*known, completion, completed_partition, check_evaluation):
                connection.execute(sa.delete(table).where(table.c.table_name == str(name)))

    def desired(self, name: TableName | str) -> Desired:
        """What the table shall do."""
        known = self._wanted.get(str(name))
        if known is None:
            with self._writing:  # else a table that is dropped meanwhile would be remembered
                known = self._wanted.setdefault(str(name), self.row(name).desired)
        return known

    def set_desired(self, name: TableName | str, desired: Desired) -> None:
        """Ask the table to run or to rest."""
        if desired not in _DESIRED:
            raise ValueError(f"desired state must be one of {_DESIRED}, not `{desired}`")
        with self._writing:
            self._update(name, {"desired": desired, "updated_at": utc_now()})
            self._wanted[str(name)] = desired

    def observe(self, name: TableName | str, state: State, error: str | None = None) -> None:
        """Record what the table was seen doing. Cheap to call again with the same state.

        What cannot be recorded, as on a full disk, is shown nevertheless, and recorded the next time.
        """
        if self._observed.get(str(name)) == (state, error):
            return
        with self._writing:
            self._observe(name, state, error)

    def _observe(self, name: TableName | str, state: State, error: str | None) -> None:
        row = self._recorded(name)
        if (row.state, row.error) != (state, error):
            try:
                self._update(name, {"state": state, "error": error, "updated_at": utc_now()})
            except sa.exc.OperationalError as failure:
                log.warning("the state of %s is not recorded: %s", name, failure.orig)
                self._unrecorded[str(name)] = (state, error)
                self._observed.pop(str(name), None)
                return
        self._unrecorded.pop(str(name), None)
        self._observed[str(name)] = (state, error)

    def row(self, name: TableName | str) -> CatalogRow:
        """One table's row."""
        return self._seen(self._recorded(name))

    def rows(self) -> list[CatalogRow]:
        """Every table, by name."""
        with reading(self._engine) as connection:
            select = sa.select(materialized_table).order_by(materialized_table.c.name)
            return [self._seen(_row(r)) for r in connection.execute(select).mappings()]

    def _recorded(self, name: TableName | str) -> CatalogRow:
        t = materialized_table
        with reading(self._engine) as connection:
            found = connection.execute(sa.select(t).where(t.c.name == str(name))).mappings().one_or_none()
        if found is None:
            raise self._unknown(name)
        return _row(found)

    def _seen(self, row: CatalogRow) -> CatalogRow:
        state, error = self._unrecorded.get(row.name, (row.state, row.error))
        return replace(row, state=state, error=error)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._engine.dispose()

    def _update(self, name: TableName | str, values: Mapping[str, object]) -> None:
        t = materialized_table
        with self._engine.begin() as connection:
            changed = connection.execute(sa.update(t).where(t.c.name == str(name)).values(dict(values)))
        if changed.rowcount == 0:
            raise self._unknown(name)

    def _unknown(self, name: TableName | str) -> UnknownName:
        hint = did_you_mean(str(name), (row.name for row in self.rows()))
        return UnknownName(f"no table `{name}` in the catalog" + (f": {hint}" if hint else ""))

    def _migrate(self) -> None:
        with _answering(self._engine.url), self._engine.begin() as connection:
            migrate(connection)


@contextmanager
def _answering(url: sa.URL) -> Iterator[None]:
    """Say in words of the settings that a database does not answer."""
    try:
        yield
    except sa.exc.OperationalError as error:
        why = str(error.orig).strip().splitlines()[0]
        raise TerminalError(
            f"the catalog {url.render_as_string()} does not answer: {why}. Next: start that database, or "
            "correct `catalog_url` in headrace.toml"
        ) from None


def _row(values: sa.RowMapping) -> CatalogRow:
    row = dict(values)
    row["mode"] = RefreshMode(row["mode"])
    row["updated_at"] = cast(datetime, row["updated_at"]).replace(tzinfo=UTC)
    return CatalogRow(**row)
