"""The demo's steps in containers, by `deploy/compose.yml`: load, freshness, backfill, proof, kills."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from chain_support import eventually

from containers import Compose, engine, provide, up
from headrace.demo.load import LoadGenerator
from headrace.demo.shop import TABLES, row_counts
from headrace.demo.waiting import not_caught_up
from headrace.results import TableStatus

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(3600)]

SOURCE = "postgresql://headrace:headrace@127.0.0.1:25432/shop"
DAGSTER = "http://127.0.0.1:23000"
TABLE = "dws.user_hour"
RATE = 20.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Compose]:
    with engine() as running:
        provide(running)
        with up(running) as stack:
            yield stack


def tables(stack: Compose) -> dict[str, TableStatus]:
    found = [TableStatus.model_validate(table) for table in stack.json("status")["tables"] or ()]
    return {table.table: table for table in found}


def caught_up(stack: Compose) -> bool:
    """Every row of the source is in its stg table, and nothing waits."""
    counts = row_counts(SOURCE)
    rows = {f"stg.{table}": counts[table] for table in TABLES}
    outstanding = not_caught_up(list(tables(stack).values()), rows)
    assert outstanding is None, outstanding
    return True


def streams(stack: Compose, version: int) -> None:
    """Wait until the table has come so far."""

    def there() -> bool:
        found = tables(stack)[TABLE]
        assert found.version >= version, (found.state, found.version)
        return True

    eventually(f"version {version}", there)


def test_every_service_is_well(stack: Compose) -> None:
    services = {service["name"]: service["state"] for service in stack.json("status")["services"]}
    own = {"postgres", "kafka", "connect"}
    assert {name for name, state in services.items() if state == "EXTERNAL"} == own
    assert {state for name, state in services.items() if name not in own} == {"RUNNING"}, services
    refused = stack.headrace("up", check=False)
    assert refused.returncode != 0 and "something else runs the services" in refused.stderr


def test_load_freshness_backfill_and_proof(stack: Compose) -> None:
    eventually("the first load", lambda: caught_up(stack))
    with LoadGenerator(SOURCE, seed=3, rate=RATE) as load:
        streams(stack, tables(stack)[TABLE].version + 20)
        eventually("it is fresh", lambda: not tables(stack)[TABLE].late)
        [label] = stack.json("sql", f"SELECT max(logdate) AS newest FROM {TABLE}")
        backfill = stack.json("refresh", TABLE, "--start", label["newest"], "--end", label["newest"])
        assert (backfill["inserted"], backfill["updated"], backfill["deleted"]) == (0, 0, 0)
        stack.headrace("verify")
        load.raise_if_failed()


def test_a_killed_container_loses_nothing(stack: Compose) -> None:
    eventually("the first load", lambda: caught_up(stack))
    with LoadGenerator(SOURCE, seed=5, rate=RATE) as load:
        for service in ("warehouse", "kafka", "connect"):
            version, container = tables(stack)[TABLE].version, stack.container(service)
            stack.engine.docker("kill", container)
            stack.engine.docker("start", container)
            streams(stack, version + 5)
        load.raise_if_failed()
    stack.engine.docker("kill", stack.container("postgres"))
    stack.engine.docker("start", stack.container("postgres"))
    eventually("all is there", lambda: caught_up(stack))
    stack.headrace("verify")


def test_dagster_shows_the_tables(stack: Compose) -> None:
    query = "{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }"
    answer = httpx.post(f"{DAGSTER}/graphql", json={"query": query}, timeout=60, trust_env=False).json()
    found = {".".join(node["key"]["path"]) for node in answer["data"]["assetsOrError"]["nodes"]}
    assert TABLE in found or TABLE.replace(".", "/") in found, found
