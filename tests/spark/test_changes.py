"""Subscribing: folding a changelog gives the table, from the beginning and from any version on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from harness import Harness
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.catalog import Catalog
from headrace.engine.compaction.compaction import compact
from headrace.engine.read import changes as subscription
from headrace.errors import TerminalError
from headrace.results import ChangePage

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}
Rows = dict[tuple[Any, ...], dict[str, Any]]


def lose(warehouse: Harness, table: str, hour: str) -> None:
    """The stream deletes one hour's rows, wrongly."""
    store = warehouse.table(table).store
    rows = store.head().find(("hour",), {(hour,)})
    deletes = rows.append_column("_kind", pa.array(["-D"] * rows.num_rows, pa.string()))
    store.append(deletes, replace(store.commit, version=store.version + 1), origin="stream")


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    """Versions by stream, by backfill and of tombstones alone, a compaction between them."""
    made = nine_orders(harness(CHAIN))
    made.source.put("orders", order_id=1, user_id=2, amount="7.00", hour=HOURS[2])
    made.source.delete("orders", 2)
    made.step()
    lose(made, "dwd.paid", HOURS[1])
    made.backfill("dwd.paid", HOURS[1], HOURS[1])
    made.advance()
    made.source.put("orders", order_id=77, user_id=1, amount="1.00", hour=HOURS[0])
    made.source.delete("orders", 77)
    made.step()
    compact(made.sessions.batch, made.table("stg.orders"), run_id="test")
    made.source.put("orders", order_id=3, user_id=1, amount="30.00", hour=HOURS[0])
    made.source.delete("orders", 4)
    made.step()
    return made


def page(
    warehouse: Harness, catalog: Catalog, table: str, start: Any, reader: str | None = None
) -> ChangePage:
    return subscription.page(warehouse.sessions.batch, warehouse.table(table), catalog.readers, start, reader)


def held(warehouse: Harness, table: str, version: int) -> Rows:
    """The table at a version, by key."""
    store = warehouse.table(table).store
    rows = store.frame(warehouse.sessions.batch, version=version).select(*store.schema.names).toArrow()
    return {tuple(r[k] for k in store.schema.key): r for r in rows.to_pylist()}


def fold(rows: Rows, found: ChangePage, key: tuple[str, ...]) -> Rows:
    """Apply changes in order. An old row must be there, exactly as the change says, and a new one not."""
    folded = dict(rows)
    for change in found.rows.to_pylist():
        kind = change.pop("_kind")
        del change["_version"], change["_origin"]
        at = tuple(change[k] for k in key)
        if kind in ("-U", "-D"):
            assert folded.pop(at) == change
        else:
            assert at not in folded
            folded[at] = change
    return folded


@pytest.mark.parametrize("table", ["stg.orders", "dwd.paid", "dws.by_user"])
def test_folding_changes_gives_the_table(warehouse: Harness, catalog: Catalog, table: str) -> None:
    store = warehouse.table(table).store
    at = {v: held(warehouse, table, v) if v else {} for v in range(store.version + 1)}
    assert store.version >= 3 and at[store.version]
    for version in range(store.version + 1):
        found = page(warehouse, catalog, table, version)
        assert (found.after, found.through, found.head) == (version, store.version, store.version)
        assert fold(at[version], found, store.schema.key) == at[store.version]


def test_the_kinds_of_versions_that_the_fold_went_over(warehouse: Harness, catalog: Catalog) -> None:
    origins = page(warehouse, catalog, "dwd.paid", 0).rows.column("_origin").to_pylist()
    assert {"stream", "backfill"} <= set(origins)
    stg = page(warehouse, catalog, "stg.orders", 0)
    assert stg.rows.column_names == ["_version", "_kind", "_origin", "order_id", "user_id", "amount", "hour"]
    assert 77 not in stg.rows.column("order_id").to_pylist()
    logged = warehouse.table("stg.orders").store.changelog.all_rows(warehouse.sessions.batch)
    assert logged.where("_origin = 'tombstone'").count() == 1


def test_pages_end_between_versions(
    warehouse: Harness, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "PAGE_ROWS", 1)
    store, rows, at = warehouse.table("stg.orders").store, {}, 0
    while at < store.version:
        found = page(warehouse, catalog, "stg.orders", at)
        assert found.through == at + 1
        rows, at = fold(rows, found, store.schema.key), found.through
    assert rows == held(warehouse, "stg.orders", store.version)


def test_a_snapshot_and_what_follows(warehouse: Harness, catalog: Catalog) -> None:
    store = warehouse.table("dwd.paid").store
    first = page(warehouse, catalog, "dwd.paid", "SNAPSHOT")
    assert set(first.rows.column("_kind").to_pylist()) == {"+I"} and first.through == store.version
    rows = fold({}, first, store.schema.key)
    warehouse.source.put("orders", order_id=5, user_id=0, amount="55.00", hour=HOURS[2])
    warehouse.step()
    rows = fold(rows, page(warehouse, catalog, "dwd.paid", first.through), store.schema.key)
    assert rows == held(warehouse, "dwd.paid", store.version)


def test_a_reader_goes_on_where_it_was(warehouse: Harness, catalog: Catalog) -> None:
    head = warehouse.table("dwd.paid").store.version
    assert page(warehouse, catalog, "dwd.paid", None, "audit").after == 0
    assert page(warehouse, catalog, "dwd.paid", None, "audit").after == 0, "what was not done comes again"
    assert page(warehouse, catalog, "dwd.paid", 2, "audit").after == 2
    assert page(warehouse, catalog, "dwd.paid", None, "audit").after == 2
    assert page(warehouse, catalog, "dwd.paid", "LATEST", "audit").rows.num_rows == 0
    assert [r.position for r in catalog.readers.all("dwd.paid")] == [head]
    catalog.readers.drop("dwd.paid", "audit")
    assert page(warehouse, catalog, "dwd.paid", None, "audit").after == 0


def test_versions_that_are_not_there(warehouse: Harness, catalog: Catalog) -> None:
    store = warehouse.table("dwd.paid").store
    with pytest.raises(TerminalError, match=rf"is at version {store.version}, there is no version 99"):
        page(warehouse, catalog, "dwd.paid", 99)
    store.changelog.removed = 2
    with pytest.raises(TerminalError, match=r"those after version 2.*headrace changes dwd.paid --from snap"):
        page(warehouse, catalog, "dwd.paid", 1, "audit")
    assert catalog.readers.all() == [], "a refused read moves no reader"
    assert page(warehouse, catalog, "dwd.paid", None).after == 2
