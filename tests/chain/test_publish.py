"""A dws table in a PostgreSQL of its readers: equal to the warehouse's under load and kills, and in time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop, command

from headrace.results import ApplyResult
from headrace.spec import load_project

pytestmark = pytest.mark.long

TABLE, FRESHNESS = "dws.user_hour", 10
KILLS = int(os.environ.get("HEADRACE_PUBLISH_KILLS", "2"))
Reports = psycopg.Connection[Any]


@pytest.fixture
def reports(shop: Shop) -> Iterator[Reports]:
    """Another database of the same server, and its tables published while the test runs."""
    with psycopg.connect(shop.settings.postgres_dsn("postgres"), autocommit=True) as owner:
        owner.execute("CREATE DATABASE reports")
        try:
            with psycopg.connect(shop.settings.postgres_dsn("reports"), autocommit=True) as connection:
                yield connection
        finally:
            owner.execute("DROP DATABASE reports WITH (FORCE)")


def apply(shop: Shop, file: str, old: str, new: str) -> ApplyResult:
    path = shop.settings.project / "layers" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    result = ApplyResult.model_validate(shop.client.run("APPLY").result)
    shop.project = load_project(shop.settings.project)
    return result


def version(reports: Reports) -> int:
    query = "SELECT version FROM serving.headrace_published WHERE table_name = 'user_hour'"
    return int(reports.execute(query).fetchone()[0])  # type: ignore[index]


def differing(shop: Shop, reports: Reports) -> set[tuple[Any, ...]]:
    """Rows that only one of both has."""
    there = reports.execute("SELECT user_id, logdate, cnt, amount FROM serving.user_hour").fetchall()
    here = shop.client.query(f"SELECT user_id, logdate, cnt, amount FROM {TABLE}").to_pylist()
    return set(there) ^ {tuple(row.values()) for row in here}


def test_a_published_table_equals_its_table_after_a_load_and_kills(shop: Shop, reports: Reports) -> None:
    """Its position is where the server begins again: nothing is lost, and nothing counted twice."""
    url = shop.settings.postgres_dsn("reports")
    user, _, rest = url.partition("@")
    password = user.rpartition(":")[2]
    written = f"postgresql://headrace:${{env:HEADRACE_TARGET_PASSWORD}}@{rest}"
    option = f"'publish' = '{written}', 'publish.table' = 'serving.user_hour', "
    with shop.served({"HEADRACE_TARGET_PASSWORD": password}):
        applied = apply(shop, "dws/user_hour.sql", "WITH (", f"WITH ({option}")
        assert [(t.table, t.change, t.what) for t in applied.tables] == [(TABLE, "PROPERTIES", ["WITH"])]

        def published() -> Any:
            status = shop.status()[TABLE].published
            assert status is not None and status.error is None, status
            return status if status.version >= 0 else None

        eventually("it is published", published)
        with shop.load(seed=61) as load:
            for _ in range(KILLS):
                before = version(reports)
                eventually("it follows", lambda before=before: version(reports) > before)
                shop.kill()
            shop.wait_running()
            eventually("it keeps its promise", lambda: (published().measured_p90 or 99) <= 2 * FRESHNESS)
            assert not [alarm for alarm in shop.status()[TABLE].alarms if "behind its source" in alarm]
            load.raise_if_failed()
        shop.wait_caught_up()
        eventually("it has everything", lambda: not published().behind)
        assert not differing(shop, reports)
        shop.verify(TABLE)
        status = published()
        assert status.target.startswith("serving.user_hour at 127.0.0.1:")
        assert password not in status.target

        command(shop, "publish", TABLE, "--dry-run")
        reports.execute("UPDATE serving.user_hour SET cnt = cnt + 1 WHERE user_id = 1")
        reports.execute("DELETE FROM serving.user_hour WHERE user_id = 2")
        found = command(shop, "publish", TABLE, "--dry-run", code=1)
        assert "nothing was changed" in found.stderr
        assert differing(shop, reports)
        assert "they are mended" in command(shop, "publish", TABLE).stderr
        assert not differing(shop, reports)

        apply(shop, "dws/user_hour.sql", option, "")
        eventually("it is published no more", lambda: shop.status()[TABLE].published is None)
    readers = shop.client.run(f"SHOW READERS {TABLE}").result
    assert readers == []
