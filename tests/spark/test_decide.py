"""How refreshes run: the record in their commits, forced strategies, the shadow run, nothing to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Harness, layer

from headrace.engine.refresh.decision import history
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.refresh.shadow import StrategiesDiffer
from headrace.planner.policy.choice import samples
from headrace.store.record.commits import newest
from headrace.store.record.decision import Decision

HOUR = "2026112010"
RANGE = "WHERE hour >= ${start_date} AND hour <= ${end_date}"
LAYERS = {
    "dws/by_user": layer(
        "dws.by_user",
        "user_id, hour",
        f"SELECT user_id, hour, count(*) AS cnt, max(amount) AS most FROM stg.orders {RANGE} "
        "GROUP BY user_id, hour",
    ),
}


def put(warehouse: Harness, key: int, amount: str, user: int = 1) -> None:
    warehouse.source.put("orders", order_id=key, user_id=user, amount=amount, hour=HOUR)


def refresh(warehouse: Harness, force: str | None = None) -> Decision | None:
    """Feed what the source emitted, refresh `dws.by_user`, and read the decision of its newest commit."""
    warehouse.feed()
    table = warehouse.table("dws.by_user")
    refresh_table(warehouse.sessions, warehouse.registry, table, {}, run_id="test", force=force)
    return Decision.from_dict(newest(table.store.changelog.path, 1)[0].decision)


def test_decisions_stand_in_the_commits_and_survive_a_restart(harness: Callable[..., Harness]) -> None:
    warehouse = harness(LAYERS)
    put(warehouse, 1, "1.00")
    put(warehouse, 2, "2.00", user=2)
    loaded = refresh(warehouse)
    assert loaded is not None and (loaded.path, loaded.rows_out) == ("load", 2)

    put(warehouse, 3, "9.00")
    found = refresh(warehouse)
    assert found is not None
    assert (found.chosen, found.path, found.rows_in, found.rows_out) == ("AFFECTED_KEYS", "driver", 1, 2)
    assert found.changes == {"stg.orders": "append only"}
    assert set(found.estimates) == {"AFFECTED_KEYS", "FULL"}
    assert found.seconds > 0 and found.why.startswith("at first sight")

    put(warehouse, 3, "8.00")
    forced = refresh(warehouse, force="FULL")
    assert forced is not None
    assert (forced.chosen, forced.path, forced.why) == ("FULL", "cluster", "forced")
    assert forced.changes == {"stg.orders": "changes"}
    warehouse.assert_parity()

    warehouse.open()
    assert list(history(warehouse.table("dws.by_user"))) == [loaded, found, forced]


def test_what_cancels_out_is_nothing_to_do(harness: Callable[..., Harness]) -> None:
    warehouse = harness(LAYERS)
    put(warehouse, 1, "1.00")
    refresh(warehouse)
    table = warehouse.table("dws.by_user")
    before = table.store.version
    put(warehouse, 1, "5.00")
    warehouse.feed()
    put(warehouse, 1, "1.00")
    put(warehouse, 2, "1.00")
    warehouse.feed()
    warehouse.source.delete("orders", 2)
    refresh(warehouse)
    assert table.store.version == before
    assert table.reached == {"stg.orders": warehouse.table("stg.orders").store.version}


def test_policy_incremental_never_runs_the_whole_query(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row changes, on the cluster: AUTO takes FULL there."""
    strict = LAYERS["dws/by_user"].replace(" AS SELECT", " REFRESH_POLICY = INCREMENTAL AS SELECT", 1)
    chosen = []
    for text in (LAYERS["dws/by_user"], strict):
        warehouse = harness({"dws/by_user": text})
        warehouse.limit(small=-1, changed=-1)
        put(warehouse, 1, "1.00")
        refresh(warehouse)
        put(warehouse, 1, "2.00")
        found = refresh(warehouse)
        assert found is not None and found.path == "cluster"
        chosen.append(found.chosen)
        warehouse.assert_parity()
    assert chosen == ["FULL", "AFFECTED_KEYS"]


def test_where_the_driver_gives_up_the_cluster_goes_on(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = harness(LAYERS)
    warehouse.limit(compared=-1)
    put(warehouse, 1, "1.00")
    refresh(warehouse)
    put(warehouse, 2, "2.00")
    found = refresh(warehouse)
    assert found is not None and found.path == "driver, then cluster"
    warehouse.assert_parity()


def test_the_shadow_run_trains_and_tells_of_a_difference(harness: Callable[..., Harness]) -> None:
    warehouse = harness(LAYERS)
    warehouse.registry.shadow_one_in = 2
    shadows = []
    for key in (1, 2, 3, 4):
        put(warehouse, key, f"{key}.00")
        found = refresh(warehouse)
        assert found is not None
        shadows.append(set(found.shadow))
    assert shadows == [set(), {"FULL"}, set(), {"FULL"}]
    table = warehouse.table("dws.by_user")
    assert [s.strategy for d in history(table) for s in samples(d)].count("FULL") == 2

    # a query whose strategy is wrong for it: only the shadow can know
    put(warehouse, 5, "5.00", user=2)
    refresh(warehouse)
    put(warehouse, 6, "6.00", user=2)
    warehouse.feed()
    whole = table.store.version
    cells = table.plan.strategy.cells  # type: ignore[union-attr]
    object.__setattr__(cells, "leaves", ((0, ("order_id", "hour")),))
    warehouse.registry.shadow_one_in = 1
    with pytest.raises(StrategiesDiffer, match=r"dws\.by_user.*only FULL gives.*'user_id': 2"):
        refresh(warehouse)
    assert table.store.version == whole
