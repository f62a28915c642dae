"""Cascades, repairs and subscribers in the real stack, while the shop goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from chain_support import eventually
from deltalake import DeltaTable, write_deltalake
from running_shop import Shop

from headrace.errors import HeadraceError
from headrace.gateway.client import StatementFailed
from headrace.results import CascadeResult, ParityResult, ResyncResult
from headrace.store.schema import BACKFILL, ORIGIN
from headrace.subscription import ChangeBatch, batches

pytestmark = pytest.mark.long

HOURS = "SELECT DISTINCT logdate FROM dws.gmv_hour ORDER BY logdate"
NO_HOUR = "2020010100"  # long before the shop opened: no load ever writes to it


@pytest.fixture
def old_hours(shop: Shop) -> list[str]:
    """Hours that the load, which writes around now, mostly leaves alone."""
    shop.wait_caught_up()
    hours: list[str] = shop.client.query(HOURS).column(0).to_pylist()
    return hours[10:14]


def damage(shop: Shop, table: str, key: tuple[str, Any], column: str, value: Any) -> int:
    """Another engine, which knows nothing of headrace, writes into rows of a snapshot; returns how many."""
    held, wrong = _altered(shop, table, key, column, value)
    partitions = held.metadata().partition_columns or None
    predicate = f"{key[0]} = {key[1]!r}"
    write_deltalake(held, wrong, mode="overwrite", predicate=predicate, partition_by=partitions)
    return wrong.num_rows


def plant(shop: Shop, table: str, key: tuple[str, Any], column: str, value: Any) -> int:
    """As `damage`, but the altered rows come beside the right ones."""
    held, wrong = _altered(shop, table, key, column, value)
    write_deltalake(held, wrong, mode="append")
    return wrong.num_rows


def _altered(
    shop: Shop, table: str, key: tuple[str, Any], column: str, value: Any
) -> tuple[DeltaTable, pa.Table]:
    held = DeltaTable(str(shop.path(table, "snapshot")))
    rows = held.to_pyarrow_table()
    rows = rows.filter(pc.equal(rows.column(key[0]), key[1]))
    place = rows.schema.get_field_index(column)
    field = rows.schema.field(place)
    return held, rows.set_column(place, field, pa.array([value] * rows.num_rows, field.type))


def verified(shop: Shop, statement: str) -> list[ParityResult]:
    return [ParityResult.model_validate(result) for result in shop.client.run(statement).result]


def resynced(shop: Shop, statement: str) -> ResyncResult:
    return ResyncResult.model_validate(shop.client.run(statement).result)


def test_a_cascade_under_load_ends_with_its_proof(shop: Shop, old_hours: list[str]) -> None:
    first, last = old_hours[0], old_hours[-1]
    hours = f"logdate BETWEEN '{first}' AND '{last}'"
    statement = f"ALTER MATERIALIZED TABLE dwd.orders REFRESH PARTITION ({hours}) CASCADE"
    dry = CascadeResult.model_validate(shop.client.run(f"{statement} DRY RUN").result)
    assert dry.dry_run and all(t.refreshed is None for t in dry.tables)
    with shop.load(seed=21):
        before = shop.status()
        result = CascadeResult.model_validate(shop.client.run(statement).result)
        eventually(
            "the stream goes on",
            lambda: shop.status()["dws.user_hour"].version > before["dws.user_hour"].version,
        )
    assert [t.table for t in result.tables] == [t.table for t in dry.tables]
    assert result.tables[0].table == "dwd.orders"
    assert {"dws.user_hour", "dws.gmv_hour"} <= {t.table for t in result.tables}
    for table in result.tables:
        assert table.proof and all(p.equal for p in table.proof), table
        assert table.refreshed is not None and not table.refreshed.inserted + table.refreshed.deleted
    shop.verify("dwd.orders", "dws.user_hour", "dws.gmv_hour")


def test_what_another_engine_damaged_is_repaired_under_load(shop: Shop, old_hours: list[str]) -> None:
    hour = old_hours[0]
    eventually("compaction", lambda: shop.status()["dws.gmv_hour"].tail_rows == 0)
    assert damage(shop, "dws.gmv_hour", ("logdate", hour), "orders", 77_777) == 1
    assert plant(shop, "dws.gmv_hour", ("logdate", hour), "logdate", NO_HOUR) == 1
    with shop.load(seed=22):
        [found] = verified(shop, "VERIFY dws.gmv_hour")
        assert not found.equal
        # The load may write to the damaged hour's orders at any time, and then the hour is right again.
        assert (found.missing, found.extra) in {(1, 2), (0, 1)}
        assert NO_HOUR in {row.row["logdate"] for row in found.sample}
        [repaired] = verified(shop, "VERIFY dws.gmv_hour REPAIR")
        assert repaired.equal and repaired.repaired is not None
        assert NO_HOUR in repaired.repaired.partitions
        assert set(repaired.repaired.partitions) <= {NO_HOUR, hour}
    shop.verify("dws.gmv_hour")


def test_a_backfill_of_a_range_that_was_killed_is_whole_when_it_is_done_again(
    shop: Shop, old_hours: list[str]
) -> None:
    """Between its corrections, which are in the changelog by then, and the snapshot's new partitions."""
    for hour in old_hours[:2]:
        assert damage(shop, "dws.gmv_hour", ("logdate", hour), "orders", 55_555) == 1
    statement = (
        "ALTER MATERIALIZED TABLE dws.gmv_hour REFRESH PARTITION "
        f"(logdate BETWEEN '{old_hours[0]}' AND '{old_hours[-1]}')"
    )
    with shop.load(seed=54):
        pid = shop.pid
        assert pid is not None
        shop.arm("backfill.corrected=kill")
        with pytest.raises(HeadraceError):
            shop.client.run(statement)
        shop.wait_replaced(pid)
        shop.wait_answers()
        shop.wait_running()
        assert set(shop.client.run(statement).result["partitions"]) == set(old_hours)
    shop.wait_caught_up()
    shop.verify("dws.gmv_hour", "dws.gmv_day")


def test_a_stg_table_is_repaired_from_its_source(shop: Shop) -> None:
    shop.wait_caught_up()
    eventually("compaction", lambda: shop.status()["stg.users"].tail_rows == 0)
    assert damage(shop, "stg.users", ("user_id", 7), "city", "Atlantis") == 1
    with shop.load(seed=23):
        found = {(r.table, r.against): r for r in verified(shop, "VERIFY stg.users REPAIR")}
        assert all(r.equal for r in found.values()), found
        assert any(r.repaired is not None for r in found.values()), found
    shop.verify("stg.users")


def test_rows_that_a_condition_means_are_read_from_the_source_and_no_others(shop: Shop) -> None:
    """Those that the table alone has so, wrong ones and ones too many, and those that the source has so."""
    shop.wait_caught_up()
    eventually("compaction", lambda: shop.status()["stg.users"].tail_rows == 0)
    for user, city in ((7, "Atlantis"), (8, "Lemuria")):
        assert damage(shop, "stg.users", ("user_id", user), "city", city) == 1
    assert plant(shop, "stg.users", ("user_id", 10), "user_id", 1_000_009) == 1
    DeltaTable(str(shop.path("stg.users", "snapshot"))).delete("user_id = 9")
    resync = "ALTER MATERIALIZED TABLE stg.users RESYNC"
    where = "WHERE city = 'Atlantis' OR user_id IN (9, 1000009)"
    dry = resynced(shop, f"{resync} DRY RUN {where}").found
    assert dry is not None and (dry.missing, dry.extra, dry.error) == (2, 2, None)
    assert {row.row["user_id"] for row in dry.sample} == {7, 9, 1_000_009}
    for expected in ((1, 1, 1), (0, 0, 0)):
        done = resynced(shop, f"{resync} {where}").refreshed
        assert done is not None and (done.inserted, done.updated, done.deleted) == expected
    [_, against_source] = verified(shop, "VERIFY stg.users")
    assert {row.row["user_id"] for row in against_source.sample} == {8}
    with pytest.raises(StatementFailed, match=r"the source refuses the condition .*invalid input syntax"):
        resynced(shop, f"{resync} WHERE user_id = 'seven'")
    with pytest.raises(StatementFailed, match=r"no rows of it can be read again. Next: `headrace refresh"):
        resynced(shop, "ALTER MATERIALIZED TABLE dws.user_hour RESYNC WHERE user_id = 7")
    with shop.load(seed=25):
        done = resynced(shop, f"{resync} WHERE user_id < 100").refreshed
        assert done is not None and done.updated == 1
    shop.verify("stg.users", "dws.user_hour")


def test_a_subscriber_that_folds_has_the_table(shop: Shop) -> None:
    table, key = "dws.user_hour", ("user_id", "logdate")
    held: dict[tuple[Any, ...], dict[str, Any]] = {}
    through = -1

    def fold(found: Iterator[ChangeBatch]) -> int:
        newest = through
        for batch in found:
            for row in batch.rows.to_pylist():
                at = tuple(row[column] for column in key)
                if row["_kind"].startswith("+"):
                    held[at] = {name: value for name, value in row.items() if not name.startswith("_")}
                else:
                    del held[at]
            newest = batch.through
        return newest

    through = fold(batches(shop.client, table, from_version="snapshot", follow=False, reader="folder"))
    assert through > 0
    with shop.load(seed=24):
        shop.wait_advanced(table, by=2)
    shop.wait_caught_up()
    assert fold(batches(shop.client, table, from_version=None, follow=False, reader="folder")) > through
    live = shop.client.query(f"SELECT * FROM {table}").to_pylist()
    assert sorted(map(repr, held.values())) == sorted(map(repr, live))
    [reader] = [r for r in shop.client.run(f"SHOW READERS {table}").result if r["reader"] == "folder"]
    assert reader["position"] == shop.status()[table].version
    assert BACKFILL not in set(shop.client.query(f"CHANGES {table}").column(ORIGIN).to_pylist())
