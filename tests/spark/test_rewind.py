"""Rewind: rows, sequences and frontiers of an older version come back; read again, all is as it was."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, change

from headrace.engine.compaction.compaction import compact
from headrace.engine.statements import rewind as module
from headrace.engine.statements.rewind import Rewind
from headrace.engine.table.table import Table
from headrace.errors import TransientError
from headrace.planner.policy.rewind import RewindRefused
from headrace.progress import Progress
from headrace.results import RewindResult
from headrace.sources.stream.envelope import Event, sequence
from headrace.spec.model import TableName
from headrace.store.schema import SEQUENCE

TABLES = ("dwd/paid", "dwd/cities", "dws/by_user", "dws/by_city", "dws/top", "dws/total")
HOUR = HOURS[0]

State = dict[str, list[tuple[Any, ...]]]


@dataclass
class Shop:
    """A warehouse, everything that its source ever said, and who was asked to rest."""

    warehouse: Harness
    said: list[Event] = field(default_factory=list)
    suspended: list[str] = field(default_factory=list)
    first_offset: int = 0
    resumed: frozenset[str] = frozenset()

    def step(self) -> None:
        events = self.warehouse.source.take()
        self.said += events
        self.warehouse.advance(self.warehouse.feed(events))

    def read_again(self) -> None:
        """The topics from the beginning: what a frontier covers is skipped."""
        self.warehouse.advance(self.warehouse.feed(list(self.said)))

    def state(self) -> State:
        """All stored rows of every table: sequences and hidden columns included."""
        found = {}
        for table in self.warehouse.registry:
            rows = table.store.frame(self.warehouse.sessions.batch).toArrow()
            found[str(table.name)] = sorted(
                zip(*(c.to_pylist() for c in rows.columns), strict=True), key=repr
            )
        return found

    def versions(self) -> dict[str, int]:
        return {str(t.name): t.store.version for t in self.warehouse.registry}

    def compact(self) -> None:
        for table in self.warehouse.registry:
            compact(self.warehouse.sessions.batch, table, run_id="test")

    def rewind(
        self, name: str, to: int | datetime, *, cascade: bool = True, dry_run: bool = False
    ) -> RewindResult:
        @contextmanager
        def paused(table: Table) -> Iterator[None]:
            if str(table.name) in self.resumed:
                raise TransientError("resumed meanwhile")
            yield

        work = Rewind(
            self.warehouse.sessions,
            self.warehouse.registry,
            lambda topics: {t: {0: (self.first_offset, 1_000_000)} for t in topics},
            lambda table: self.suspended.append(str(table.name)) is None,
            lambda table: self.suspended.remove(str(table.name)),
            paused,
            lambda table: None,
            "test",
        )
        table = self.warehouse.registry[TableName.parse(name)]
        return work.run(table, to, cascade=cascade, dry_run=dry_run, progress=Progress())


def visible(shop: Shop) -> State:
    return {str(t.name): shop.warehouse.rows(str(t.name)) for t in shop.warehouse.registry}


@pytest.fixture(params=[True, False], ids=["identity-full", "identity-default"])
def identity(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.long
@pytest.mark.parametrize(("identity", "limit"), [(True, 200_000), (False, 0)], ids=["driver", "spark"])
def test_a_chain_goes_back_and_comes_to_the_same_rows_again(
    harness: Callable[..., Harness], identity: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = harness({k: LAYERS[k] for k in TABLES}, full_identity=identity)
    warehouse.limit(corrections=limit)
    shop = Shop(warehouse)
    chance = random.Random(f"rewind {identity}")
    for _ in range(4):
        for _ in range(8):
            change(shop.warehouse.source, chance)
        shop.step()
    shop.compact()
    for _ in range(8):
        change(shop.warehouse.source, chance)
    shop.step()
    then, versions = shop.state(), shop.versions()
    frontier = shop.warehouse.table("stg.orders").store.commit
    for number in range(3):
        for _ in range(8):
            change(shop.warehouse.source, chance)
        shop.step()
        if number == 1:
            shop.compact()
    now = visible(shop)
    sequences = shop.state()["stg.orders"]
    shop.warehouse.open()

    result = shop.rewind("stg.orders", versions["stg.orders"])
    assert [t.table for t in result.tables] == shop.suspended
    assert {"stg.orders", "dwd.paid", "dws.by_user"} <= set(shop.suspended)
    went_back = {name: rows for name, rows in shop.state().items() if name in shop.suspended}
    assert went_back == {name: then[name] for name in shop.suspended}
    commit = shop.warehouse.table("stg.orders").store.commit
    assert (commit.offsets, commit.high, commit.source_ms) == (
        frontier.offsets, frontier.high, frontier.source_ms,
    )  # fmt: skip
    assert commit.rows == len(then["stg.orders"])
    shop.warehouse.assert_parity()

    shop.warehouse.open()
    assert {name: rows for name, rows in shop.state().items() if name in shop.suspended} == went_back
    shop.read_again()
    assert visible(shop) == now
    assert shop.state()["stg.orders"] == sequences
    shop.warehouse.assert_parity()


def order(key: int, amount: str = "1.00") -> dict[str, Any]:
    return {"order_id": key, "user_id": 1, "amount": amount, "hour": HOUR}


def orders(shop: Shop) -> list[int]:
    return [row[0] for row in shop.warehouse.rows("stg.orders")]


@pytest.mark.parametrize("reopened", [False, True])
def test_what_was_deleted_later_does_not_block_what_comes_again(
    harness: Callable[..., Harness], identity: bool, reopened: bool
) -> None:
    """Deletes of the versions taken back are none; those of before still block what comes late."""
    shop = Shop(harness({}, full_identity=identity))
    source = shop.warehouse.source
    for key in (1, 2, 3):
        source.put("orders", **order(key))
    shop.step()
    source.delete("orders", 3)
    shop.step()
    late = shop.said[2]  # the insert of the key that is deleted by now
    source.put("orders", **order(7))
    shop.step()
    inserted = shop.said[-1:]
    source.delete("orders", 7)
    source.delete("orders", 1)
    shop.step()
    shop.warehouse.table("stg.orders").store.deletes.find({(7,)})  # known in memory
    shop.rewind("stg.orders", 2)
    assert orders(shop) == [1, 2]
    if reopened:
        shop.warehouse.open()
    store = shop.warehouse.table("stg.orders").store
    assert store.deletes.find({(1,), (3,), (7,)}) == {(3,): sequence(0, shop.said[3].lsn)}
    shop.warehouse.feed(inserted)
    assert orders(shop) == [1, 2, 7]
    shop.warehouse.feed([late._replace(offset=5)])
    assert orders(shop) == [1, 2, 7]
    assert store.commit.accounting["duplicate"] == 1


def test_deletes_taken_back_are_not_kept_by_retention_nor_seen_by_spark(
    harness: Callable[..., Harness],
) -> None:
    shop = Shop(harness({}))
    source, store = shop.warehouse.source, shop.warehouse.table("stg.orders").store
    for key in (1, 2, 3):
        source.put("orders", **order(key))
    shop.step()
    source.delete("orders", 3)
    shop.step()
    source.delete("orders", 1)
    shop.step()
    shop.rewind("stg.orders", 2)
    spark = shop.warehouse.sessions.batch
    assert [row[0] for row in store.deletes.frame(spark).collect()] == [3]
    store.deletes.keep(0, store.version)
    assert [row[0] for row in spark.read.format("delta").load(str(store.deletes.path)).collect()] == [3]


@pytest.mark.long
def test_a_rewind_can_be_taken_back(harness: Callable[..., Harness]) -> None:
    shop = Shop(harness({k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}))
    source = shop.warehouse.source
    for key in (1, 2):
        source.put("orders", **order(key))
    shop.step()
    source.delete("orders", 1)
    source.put("orders", **order(2, "5.00"))
    source.put("orders", **order(3))
    shop.step()
    now, versions = shop.state(), shop.versions()
    shop.rewind("stg.orders", 1)
    assert shop.warehouse.rows("dws.by_user")[0][2] == 2
    result = shop.rewind("stg.orders", versions["stg.orders"])
    assert [t.table for t in result.tables] == ["stg.orders"]  # the others had seen nothing else: they follow
    shop.warehouse.advance()
    assert shop.state() == now
    shop.warehouse.assert_parity()
    store = shop.warehouse.table("stg.orders").store
    assert set(store.deletes.find({(1,)})) == {(1,)}
    source.put("orders", **order(4))
    shop.step()
    shop.warehouse.assert_parity()
    assert shop.warehouse.rows("dws.by_user")[0][2] == 3


@pytest.fixture
def chain(harness: Callable[..., Harness]) -> Shop:
    """Three orders of one user, then more: version 1 and what follows."""
    shop = Shop(harness({k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}))
    for key in (1, 2, 3):
        shop.warehouse.source.put("orders", **order(key))
    shop.step()
    for key in (3, 4):
        shop.warehouse.source.put("orders", **order(key, "9.00"))
        shop.step()
    return shop


def test_cut_short_the_same_rewind_does_the_rest(chain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime.now(UTC)
    chain.warehouse.source.put("orders", **order(5))
    chain.step()

    def killed(name: str) -> None:
        raise TransientError(name)

    with monkeypatch.context() as patch:
        patch.setattr(module, "failpoint", killed)
        with pytest.raises(TransientError, match=r"rewind\.after_commit"):
            chain.rewind("stg.orders", moment)
    assert chain.suspended == ["stg.orders", "dwd.paid", "dws.by_user"]
    chain.warehouse.open()
    assert chain.versions() == {"stg.orders": 5, "stg.users": 0, "dwd.paid": 4, "dws.by_user": 4}
    result = chain.rewind("stg.orders", moment)
    assert [(t.table, t.done) for t in result.tables] == [
        ("stg.orders", True), ("dwd.paid", False), ("dws.by_user", False),
    ]  # fmt: skip
    assert chain.versions() == {"stg.orders": 5, "stg.users": 0, "dwd.paid": 5, "dws.by_user": 5}
    assert len(chain.warehouse.rows("dwd.paid")) == 4
    chain.warehouse.assert_parity()
    again = chain.rewind("stg.orders", moment)
    assert all(t.done for t in again.tables) and not again.suspended
    chain.read_again()
    assert len(chain.warehouse.rows("dwd.paid")) == 5
    chain.warehouse.assert_parity()


def test_dependants_that_were_left_beyond_follow_what_was_taken_back(
    chain: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut short and then resumed: the rewind's own changes lead on from where the dependants stand."""

    def killed(name: str) -> None:
        raise TransientError(name)

    with monkeypatch.context() as patch:
        patch.setattr(module, "failpoint", killed)
        with pytest.raises(TransientError):
            chain.rewind("stg.orders", 1)
    chain.warehouse.advance()
    assert chain.warehouse.rows("dws.by_user")[0][2:] == (3, 3)
    chain.warehouse.assert_parity()
    chain.read_again()
    chain.warehouse.assert_parity()


def test_without_cascade_it_is_refused_and_nothing_happens(chain: Shop) -> None:
    versions = chain.versions()
    with pytest.raises(RewindRefused, match=r"INVALID_CASCADE_CONFIGURATION.*`dwd.paid`, `dws.by_user`"):
        chain.rewind("stg.orders", 1, cascade=False)
    assert chain.versions() == versions
    assert not chain.suspended


def test_a_dry_run_tells_and_changes_nothing(chain: Shop) -> None:
    versions, state = chain.versions(), chain.state()
    result = chain.rewind("stg.orders", 1, dry_run=True)
    told = [(t.table, t.from_version, t.to_version, t.inserted, t.updated, t.deleted) for t in result.tables]
    assert told == [
        ("stg.orders", 3, 1, 0, 1, 1), ("dwd.paid", 3, 1, 0, 1, 1), ("dws.by_user", 3, 1, 0, 1, 0),
    ]  # fmt: skip
    assert [t.frontier for t in result.tables] == [
        {"shop.public.orders": {0: 3}}, {"stg.orders": 1}, {"dwd.paid": 1},
    ]  # fmt: skip
    assert (chain.versions(), chain.state()) == (versions, state)
    assert not chain.suspended


def test_what_kafka_has_dropped_is_refused(chain: Shop) -> None:
    chain.first_offset = 4
    with pytest.raises(RewindRefused, match=r"BEYOND_RETENTION.*offset 3"):
        chain.rewind("stg.orders", 1)
    assert not chain.suspended


@pytest.mark.long
def test_a_table_that_was_resumed_meanwhile_is_left_alone(chain: Shop) -> None:
    chain.resumed = frozenset({"dwd.paid"})
    with pytest.raises(TransientError, match="resumed"):
        chain.rewind("stg.orders", 1)
    assert chain.versions()["dwd.paid"] == 3
    chain.resumed = frozenset()
    chain.rewind("stg.orders", 1)
    assert chain.warehouse.rows("dws.by_user")[0][2:] == (3, 3)
    chain.warehouse.assert_parity()


@pytest.mark.long
@pytest.mark.parametrize("policy", ["skip", "propagate", "recompute"])
def test_a_dependant_that_had_not_come_further_sees_nothing_of_it(
    harness: Callable[..., Harness], policy: str
) -> None:
    behind = layer(
        "dws.behind",
        "user_id, hour",
        f"SELECT user_id, hour, count(*) AS cnt, sum(amount) AS amount FROM dwd.paid {RANGE} "
        "GROUP BY user_id, hour",
    ).replace("WITH (", f"WITH ('correction.policy' = '{policy}', ")
    shop = Shop(harness({"dwd/paid": LAYERS["dwd/paid"], "dws/behind": behind}))
    for key in (1, 2, 3):
        shop.warehouse.source.put("orders", **order(key))
    shop.step()
    for amount in ("7.00", "9.00"):
        shop.warehouse.source.put("orders", **order(3, amount))
        events = shop.warehouse.source.take()
        shop.said += events
        shop.warehouse.advance(shop.warehouse.feed(events), tables=1)
    shop.rewind("dwd.paid", 2, cascade=False)
    assert shop.suspended == ["dwd.paid"]
    shop.warehouse.advance_one("dws.behind", {})
    assert shop.warehouse.rows("dws.behind") == [(1, HOUR, 3, 9)]
    shop.warehouse.assert_parity()
    version = shop.warehouse.table("dws.behind").store.version
    shop.rewind("dwd.paid", 2, cascade=False)
    shop.warehouse.advance_one("dws.behind", {})
    assert shop.warehouse.table("dws.behind").store.version == version
    shop.warehouse.advance()
    assert shop.warehouse.rows("dws.behind") == [(1, HOUR, 3, 11)]
    shop.warehouse.assert_parity()


def test_subscribers_see_what_was_taken_back(chain: Shop) -> None:
    chain.rewind("stg.orders", 1)
    rows = chain.warehouse.table("dwd.paid").store.changelog.read(3, 4)
    assert set(rows.column("_origin").to_pylist()) == {"rewind"}
    assert sorted(rows.column("_kind").to_pylist()) == ["+U", "-D", "-U"]
    assert SEQUENCE not in rows.column_names
