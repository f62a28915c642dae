"""The catalog in PostgreSQL: what SQLite keeps by default, kept by a real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from headrace.catalog import Catalog, schema
from headrace.declared import deployed_tables, load_declared, waiting_changes
from headrace.errors import TerminalError
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import load_project
from headrace.spec.alteration import Alteration, declared
from headrace.spec.model import RefreshMode, TableName

ROOT = Path(__file__).resolve().parents[2]
GMV = TableName("dws", "gmv_hour")


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    """Of an empty database, as a setting gives it."""
    settings = stack.settings
    with psycopg.connect(settings.postgres_dsn("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE headrace_catalog")
        yield Settings(
            project=settings.project,
            data=settings.data,
            catalog_url=settings.postgres_dsn("headrace_catalog"),
        ).catalog
        connection.execute("DROP DATABASE headrace_catalog WITH (FORCE)")


def reading(url: str) -> Settings:
    return Settings(project=ROOT, catalog_url=url.replace("+psycopg", ""))


def test_who_only_reads_makes_none(url: str) -> None:
    assert Catalog.existing(url) is None
    settings = reading(url)
    assert waiting_changes(settings) is None
    assert load_declared(settings) == (load_project(ROOT), [])
    assert Catalog.existing(url) is None


def test_many_open_it_at_once_and_it_is_what_is_declared(url: str) -> None:
    barrier = Barrier(4)

    def open_it(_n: int) -> int:
        barrier.wait(60)
        opened = Catalog(url)
        rows = len(opened.rows())
        opened.close()
        return rows

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert list(pool.map(open_it, range(4))) == [0] * 4
    engine = schema.open_engine(sa.make_url(url))
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_what_it_is_told_survives(url: str) -> None:
    project = load_project(ROOT)
    spec = project.tables[GMV]
    catalog = Catalog(url)
    for _ in range(2):
        for table in project.tables.values():
            catalog.register(table, RefreshMode.CONTINUOUS, "so it is")
    catalog.register(spec, RefreshMode.INCREMENTAL, "because")
    catalog.register(replace(spec, definition=spec.definition + "-- new"), RefreshMode.INCREMENTAL)
    catalog.set_desired(GMV, "SUSPENDED")
    catalog.observe(GMV, "NEEDS RESYNC", "the slot was lost")
    over = declared(spec, "FRESHNESS") + " (" + "11-11 = 10 SECOND, " * 10 + ")"
    catalog.alterations.set(Alteration(GMV, "FRESHNESS", "INTERVAL '1' DAY", over))
    catalog.alterations.set(Alteration(GMV, "FRESHNESS", "INTERVAL '2' DAY", over))
    catalog.readers.done(str(GMV), "export", 7)
    catalog.readers.done(str(GMV), "export", 2**40)
    catalog.close()

    again = Catalog.existing(url)
    assert again is not None
    row = again.row(GMV)
    assert (row.definition, row.mode) == (spec.definition + "-- new", RefreshMode.INCREMENTAL)
    assert again.former.newest(GMV) == spec.definition
    assert (row.desired, row.state, row.error) == ("SUSPENDED", "NEEDS RESYNC", "the slot was lost")
    assert abs((datetime.now(UTC) - row.updated_at).total_seconds()) < 60
    assert again.alterations.all() == [Alteration(GMV, "FRESHNESS", "INTERVAL '2' DAY", over)]
    (reader,) = again.readers.all()
    assert reader.position == 2**40 and again.readers.expire(str(GMV), "export", reader.progressed_at)
    (decided,) = again.decisions.of(GMV)
    assert (decided.was, decided.became, decided.why) == ("CONTINUOUS", "INCREMENTAL", "because")
    assert deployed_tables(again, project).keys() == project.tables.keys()
    again.drop(GMV)
    assert (again.readers.all(), again.alterations.all(), again.decisions.of(GMV)) == ([], [], [])
    again.close()


def test_a_newer_headrace_is_left_its_catalog(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(TerminalError, match=r"revision 9999.*catalog_url"):
        Catalog(url)
