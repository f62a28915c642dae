"""`REFRESH NEW`: what a schedule does, over real tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Harness
from orders_chain import HOURS, LAYERS

from headrace.catalog import Catalog
from headrace.engine.flow.rejoin import refresh_beside
from headrace.engine.supervisor.schedule import Refreshes
from headrace.engine.table.table import Table
from headrace.progress import Progress
from headrace.spec.model import RefreshMode

TABLES = ("dwd.paid", "dws.by_user")


def refreshes(warehouse: Harness, catalog: Catalog) -> Refreshes:
    """The schedule of two tables, one over the other, as a server has it after its start."""

    def advance(table: Table) -> None:
        refresh_beside(warehouse.sessions, warehouse.registry, [], table, run_id="test")

    scheduled = [warehouse.table(name) for name in TABLES]
    for table in scheduled:
        catalog.register(table.spec, table.mode)
    return Refreshes(
        "dagster",
        warehouse.registry,
        catalog,
        scheduled,
        advance=advance,
        failed=lambda _, error: pytest.fail(str(error)),
        rests=lambda _: False,
    )


@pytest.mark.parametrize("mode", [RefreshMode.INCREMENTAL, RefreshMode.FULL])
def test_a_turn_carries_what_is_new_and_no_more(
    harness: Callable[..., Harness], catalog: Catalog, mode: RefreshMode
) -> None:
    warehouse = harness({name: LAYERS[name] for name in ("dwd/paid", "dws/by_user")})
    for name in TABLES:
        warehouse.table(name).mode = mode
    made = refreshes(warehouse, catalog)
    assert [w.levels for w in made.scheduler.workflows()] == [1, 2]
    for number in range(1, 5):
        warehouse.source.put("orders", order_id=number, user_id=number % 2, amount="2.00", hour=HOURS[0])
    warehouse.feed()

    def turn() -> list[tuple[int, int, int, int]]:
        found = []
        for status in made.scheduler.status():
            told = made.now(warehouse.table(status.table), status.turn, Progress())
            found.append((told.rows, told.inserted, told.updated, told.deleted))
        return found

    assert turn() == [(4, 4, 0, 0), (2, 2, 0, 0)]
    warehouse.source.put("orders", order_id=9, user_id=1, amount="3.00", hour=HOURS[1])
    warehouse.source.put("orders", order_id=4, user_id=0, amount="5.00", hour=HOURS[0])
    warehouse.feed()
    assert turn() == [(5, 1, 1, 0), (3, 1, 1, 0)]
    commit = warehouse.table("dws.by_user").store.commit
    if mode is RefreshMode.INCREMENTAL:
        assert commit.decision["chosen"] == "WEIGHTED"
    for name in TABLES:
        assert warehouse.verify(name).equal
    warehouse.open()
    made = refreshes(warehouse, catalog)  # a restart: the same workflows, and nothing is done twice
    version = commit.version
    assert turn() == [(5, 0, 0, 0), (3, 0, 0, 0)]
    assert warehouse.table("dws.by_user").store.commit.version == version
