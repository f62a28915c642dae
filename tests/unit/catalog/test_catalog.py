"""The catalog: what is asked of a table survives, also under many threads and two engines at once."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from headrace.catalog import Catalog, schema
from headrace.catalog.decisions import KEPT
from headrace.catalog.former import KEPT as FORMER
from headrace.catalog.migrate import HEAD, alembic_config
from headrace.errors import TerminalError, UnknownName
from headrace.spec import TableSpec, load_table
from headrace.spec.model import RefreshMode, TableName

BEFORE_ALEMBIC = """
CREATE TABLE schema_version (id INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (id));
INSERT INTO schema_version VALUES (1, 1);
CREATE TABLE materialized_table (
    name VARCHAR(127) NOT NULL, definition TEXT NOT NULL, definition_hash VARCHAR(64) NOT NULL,
    freshness_seconds FLOAT, mode VARCHAR(16) NOT NULL, desired VARCHAR(16) NOT NULL,
    state VARCHAR(16) NOT NULL, error TEXT, updated_at DATETIME NOT NULL, PRIMARY KEY (name)
);
INSERT INTO materialized_table VALUES (
    'dwd.words', 'text', 'hash', 10.0, 'CONTINUOUS', 'SUSPENDED', 'SUSPENDED', NULL,
    '2026-11-01 00:00:00.000000'
);
CREATE TABLE reader (
    table_name VARCHAR(127) NOT NULL, name VARCHAR(63) NOT NULL, position BIGINT NOT NULL,
    progressed_at DATETIME NOT NULL, expired BOOLEAN NOT NULL, PRIMARY KEY (table_name, name)
);
INSERT INTO reader VALUES ('dwd.words', 'export', 7, '2026-11-01 00:00:00.000000', 0);
CREATE TABLE alteration (
    table_name VARCHAR(127) NOT NULL, property VARCHAR(16) NOT NULL, value VARCHAR(63) NOT NULL,
    "over" VARCHAR(63) NOT NULL, altered_at DATETIME NOT NULL, PRIMARY KEY (table_name, property)
);
INSERT INTO alteration VALUES (
    'dwd.words', 'FRESHNESS', 'INTERVAL ''1'' DAY', 'INTERVAL ''10'' SECOND', '2026-11-01 00:00:00.000000'
);
"""

LAYER = """\
CREATE MATERIALIZED TABLE {name} (PRIMARY KEY (id))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT id FROM stg.words
"""


def url(directory: Path, name: str = "state") -> str:
    return f"sqlite:///{directory / name / 'catalog.db'}"


def table(directory: Path, name: str = "dwd.words", text: str = LAYER) -> TableSpec:
    layer, _, file = name.partition(".")
    path = directory / "layers" / layer / f"{file}.sql"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(name=name))
    return load_table(path)


def test_a_new_table_shall_run_and_has_its_definition(catalog: Catalog, tmp_path: Path) -> None:
    catalog.register(table(tmp_path), RefreshMode.CONTINUOUS)
    row = catalog.row("dwd.words")
    assert (row.desired, row.state, row.error) == ("RUNNING", "INITIALIZING", None)
    assert (row.mode, row.freshness_seconds) == (RefreshMode.CONTINUOUS, 10.0)
    assert row.definition == LAYER.format(name="dwd.words")


def test_registering_again_keeps_what_a_person_asked_for(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    catalog.set_desired(spec.name, "SUSPENDED")
    catalog.observe(spec.name, "SUSPENDED")
    before = catalog.row(spec.name)

    changed = table(tmp_path, text=LAYER.replace("'10' SECOND", "'2' HOUR"))
    catalog.register(changed, RefreshMode.INCREMENTAL)
    after = catalog.row(spec.name)
    assert (after.desired, after.state) == ("SUSPENDED", "SUSPENDED")
    assert (after.mode, after.freshness_seconds) == (RefreshMode.INCREMENTAL, 7200.0)
    assert after.definition_hash != before.definition_hash


def test_another_freshness_or_mode_is_a_decision(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS, "freshness 10 s is within 1800 s")
    first = catalog.row(spec.name).updated_at
    catalog.register(spec, RefreshMode.CONTINUOUS)
    assert catalog.decisions.of(spec.name) == [] and catalog.row(spec.name).updated_at == first
    sale = replace(spec, freshness=timedelta(hours=2), freshness_origin="its calendar: SUN = 2 HOUR")
    catalog.register(sale, RefreshMode.INCREMENTAL, "freshness 7200 s is above 1800 s")
    catalog.register(replace(sale, freshness=None, freshness_origin="a statement"), RefreshMode.INCREMENTAL)
    assert [(d.what, d.was, d.became, d.why) for d in catalog.decisions.of(spec.name)] == [
        ("FRESHNESS", "INTERVAL '2' HOUR", "DOWNSTREAM", "a statement"),
        ("REFRESH_MODE", "CONTINUOUS", "INCREMENTAL", "freshness 7200 s is above 1800 s"),
        ("FRESHNESS", "INTERVAL '10' SECOND", "INTERVAL '2' HOUR", "its calendar: SUN = 2 HOUR"),
    ]


def test_former_definitions_are_kept(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    assert catalog.former.newest(spec.name) is None
    for number in range(FORMER + 3):
        catalog.register(replace(spec, definition=f"text {number}"), RefreshMode.CONTINUOUS)
        catalog.register(replace(spec, definition=f"text {number}"), RefreshMode.INCREMENTAL)
    assert catalog.former.newest(spec.name) == f"text {FORMER + 1}"
    with sqlite3.connect(tmp_path / "state" / "catalog.db") as connection:
        (count,) = connection.execute("SELECT count(*) FROM former_definition").fetchone()
    assert count == FORMER
    catalog.drop(spec.name)
    assert catalog.former.newest(spec.name) is None


def test_state_survives_the_process(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    catalog.set_desired(spec.name, "SUSPENDED")
    catalog.observe(spec.name, "NEEDS RESYNC", "the slot was lost")
    catalog.close()
    reopened = Catalog(url(tmp_path))
    row = reopened.row(spec.name)
    assert (row.desired, row.state, row.error) == ("SUSPENDED", "NEEDS RESYNC", "the slot was lost")
    reopened.close()


def test_an_unchanged_observation_writes_nothing(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    catalog.observe(spec.name, "RUNNING")
    first = catalog.row(spec.name).updated_at
    catalog.observe(spec.name, "RUNNING")
    assert catalog.row(spec.name).updated_at == first
    catalog.observe(spec.name, "FAILED", "boom")
    assert catalog.row(spec.name).updated_at > first


def test_an_unknown_table_is_named_with_the_closest(catalog: Catalog, tmp_path: Path) -> None:
    catalog.register(table(tmp_path), RefreshMode.CONTINUOUS)
    calls = (catalog.desired, lambda name: catalog.set_desired(name, "RUNNING"), catalog.row)
    for call in calls:
        with pytest.raises(UnknownName, match=r"no table `dwd.word`.*did you mean `dwd.words`"):
            call("dwd.word")


def test_only_known_desires_are_taken(catalog: Catalog, tmp_path: Path) -> None:
    catalog.register(table(tmp_path), RefreshMode.CONTINUOUS)
    with pytest.raises(ValueError, match="PAUSED"):
        catalog.set_desired("dwd.words", "PAUSED")  # type: ignore[arg-type]


def test_many_writers_and_readers_of_two_engines_lose_nothing(catalog: Catalog, tmp_path: Path) -> None:
    names = [f"dwd.t{n}" for n in range(8)]
    specs = [table(tmp_path, name) for name in names]
    other = Catalog(url(tmp_path))

    def work(n: int) -> None:
        for round in range(15):
            mine = (catalog, other)[(n + round) % 2]
            mine.register(specs[n], RefreshMode.CONTINUOUS)
            mine.observe(names[n], "FAILED", f"error {round}")
            mine.set_desired(names[n], "SUSPENDED" if round % 2 else "RUNNING")
            mine.rows()

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(work, range(8)))  # raises what a thread raised
    rows = catalog.rows()
    other.close()
    assert [row.name for row in rows] == names
    assert {(row.error, row.desired) for row in rows} == {("error 14", "RUNNING")}


def test_a_reader_waits_for_no_writer(catalog: Catalog, tmp_path: Path) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    file = url(tmp_path).removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert catalog.row(spec.name).desired == "RUNNING"
        assert catalog.decisions.of(spec.name) == []


def test_many_open_a_new_catalog_at_once(tmp_path: Path) -> None:
    barrier = Barrier(8)

    def open_it(_n: int) -> int:
        barrier.wait(60)
        opened = Catalog(url(tmp_path, "new"))
        rows = len(opened.rows())
        opened.close()
        return rows

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert list(pool.map(open_it, range(8))) == [0] * 8


def test_a_switch_to_the_log_that_another_one_makes_too_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen once in some 2,000 openings of a new file by eight threads: too rare to wait for."""

    class Locked(sqlite3.Connection):
        refusals = 2

        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if self.refusals:
                self.refusals -= 1
                raise sqlite3.OperationalError("database is locked")
            return super().execute(*arguments)

    clock = [0.0]
    monkeypatch.setattr(schema.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(schema.time, "sleep", lambda _seconds: clock.__setitem__(0, clock[0] + 4.0))
    connection = sqlite3.connect(":memory:", factory=Locked)
    schema.write_ahead(connection)
    assert (connection.refusals, clock) == (0, [8.0])
    connection.refusals = 99
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        schema.write_ahead(connection)
    connection.close()


def test_a_catalog_of_a_newer_headrace_is_left_alone(catalog: Catalog, tmp_path: Path) -> None:
    catalog.close()
    engine = sa.create_engine(url(tmp_path))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    before = sa.inspect(engine).get_table_names()
    with pytest.raises(TerminalError, match=r"has revision 9999.*run the headrace that wrote it"):
        Catalog(url(tmp_path))
    assert sa.inspect(engine).get_table_names() == before
    engine.dispose()


def test_migrations_make_the_declared_tables(catalog: Catalog, tmp_path: Path) -> None:
    engine = schema.open_engine(sa.make_url(url(tmp_path)))
    with engine.begin() as connection:
        assert ScriptDirectory.from_config(alembic_config(connection)).get_current_head() == HEAD
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_a_catalog_from_before_migrations_keeps_what_it_has(tmp_path: Path) -> None:
    """What versions of headrace made whose catalogs Alembic did not know yet."""
    file = tmp_path / "state" / "catalog.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as old:
        old.executescript(BEFORE_ALEMBIC)
    catalog = Catalog(url(tmp_path))
    row = catalog.row("dwd.words")
    assert (row.desired, row.state, row.freshness_seconds) == ("SUSPENDED", "SUSPENDED", 10.0)
    assert [a.value for a in catalog.alterations.all()] == ["INTERVAL '1' DAY"]
    assert [r.position for r in catalog.readers.all()] == [7]
    words = TableName.parse(row.name)
    assert catalog.decisions.of(words) == []
    catalog.decisions.record(words, "FRESHNESS", "INTERVAL '1' DAY", "DOWNSTREAM", "asked")
    catalog.close()
    with closing(sqlite3.connect(file)) as now:
        tables = {name for (name,) in now.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "schema_version" not in tables and "alembic_version" in tables


def test_the_newest_decisions_stay(catalog: Catalog, tmp_path: Path) -> None:
    name = table(tmp_path).name
    for number in range(KEPT + 5):
        catalog.decisions.record(name, "FRESHNESS", str(number), str(number + 1), "asked")
    catalog.decisions.record(TableName("dwd", "others"), "REFRESH_MODE", "FULL", "INCREMENTAL", "asked")
    found = catalog.decisions.of(name)
    assert [d.became for d in found] == [str(number + 1) for number in reversed(range(5, KEPT + 5))]
    assert (found[0].table, found[0].what, found[0].why) == (name, "FRESHNESS", "asked")
    assert catalog.decisions.of(name, 2) == found[:2]
    catalog.register(table(tmp_path), RefreshMode.CONTINUOUS)
    catalog.drop(name)
    assert catalog.decisions.of(name) == [] and len(catalog.decisions.of(TableName("dwd", "others"))) == 1


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(TerminalError, match=r"does not answer.*catalog_url") as told:
        Catalog("postgresql+psycopg://warehouse:secret@127.0.0.1:9/catalog")
    assert "secret" not in str(told.value)


def test_the_file_has_a_write_ahead_log(catalog: Catalog, tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'state' / 'catalog.db'}")
    with engine.connect() as connection:
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
    engine.dispose()


@contextmanager
def full_disk() -> Iterator[None]:
    """No write to a file comes through."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_state_that_cannot_be_recorded_is_shown_and_recorded_later(
    catalog: Catalog, tmp_path: Path
) -> None:
    spec = table(tmp_path)
    catalog.register(spec, RefreshMode.CONTINUOUS)
    catalog.observe(spec.name, "RUNNING")
    with full_disk():
        catalog.observe(spec.name, "FAILED", "no space is left")
        catalog.observe(spec.name, "FAILED", "no space is left")
    assert (catalog.row(spec.name).state, catalog.rows()[0].error) == ("FAILED", "no space is left")
    assert Catalog(url(tmp_path)).row(spec.name).state == "RUNNING"
    catalog.observe(spec.name, "FAILED", "no space is left")
    assert Catalog(url(tmp_path)).row(spec.name).state == "FAILED"
    catalog.observe(spec.name, "RUNNING")
    assert catalog.row(spec.name).state == "RUNNING"
