"""The bank: money moves between accounts, none comes or goes, in every committed version of every table.

`HEADRACE_BANK_TRANSFERS` is the number of transfers (the long run makes 1000000).
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from harness import Captured, Harness, Source

from headrace.engine.compaction.compaction import compact
from headrace.engine.ingest.gate import Gate
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.transactions import Transactions
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER, VERSION

TRANSFERS = int(os.environ.get("HEADRACE_BANK_TRANSFERS", "200"))
BATCHES = 30
"""Micro-batches of a run, or more where one would become too large."""

LARGEST = 3_000
"""Transfers of a micro-batch: four events each stay below what a micro-batch keeps in the driver."""

SOURCES = {
    "accounts": Captured(
        (("account_id", "bigint"), ("branch", "text"), ("balance", "numeric(14,2)")), ("account_id",)
    ),
    "transfers": Captured(
        (
            ("transfer_id", "bigint"),
            ("payer", "bigint"),
            ("payee", "bigint"),
            ("amount", "numeric(14,2)"),
            ("hour", "text"),
        ),
        ("transfer_id",),
        "hour",
    ),
}


def _layer(name: str, key: str, query: str) -> str:
    return (
        f"CREATE MATERIALIZED TABLE {name} (PRIMARY KEY ({key})) FRESHNESS = INTERVAL '10' SECOND AS {query}"
    )


LAYERS = {
    "dwd/accounts": _layer(
        "dwd.accounts", "account_id", "SELECT account_id, branch, balance FROM stg.accounts"
    ),
    "dwd/entries": _layer(
        "dwd.entries",
        "transfer_id, side",
        "SELECT transfer_id, 'out' AS side, payer AS account_id, -amount AS balance FROM stg.transfers "
        "UNION ALL SELECT transfer_id, 'in' AS side, payee AS account_id, amount AS balance "
        "FROM stg.transfers",
    ),
    "dws/total": _layer(
        "dws.total",
        "one",
        "SELECT 1 AS one, SUM(balance) AS balance, SUM(ABS(balance)) AS held FROM dwd.accounts",
    ),
    "dws/by_branch": _layer(
        "dws.by_branch", "branch", "SELECT branch, SUM(balance) AS balance FROM dwd.accounts GROUP BY branch"
    ),
    "dws/by_account": _layer(
        "dws.by_account",
        "account_id",
        "SELECT account_id, SUM(balance) AS balance FROM dwd.entries GROUP BY account_id",
    ),
    "dws/unexplained": _layer(  # an account's balance without its transfers: 0 in every row
        "dws.unexplained",
        "account_id",
        "SELECT a.account_id, a.balance - COALESCE(e.balance, 0) AS balance, a.balance AS held "
        "FROM dwd.accounts a LEFT JOIN dws.by_account e ON e.account_id = a.account_id",
    ),
}


class Bank:
    """Transfers between accounts, each one transaction: two accounts change, a transfer is written."""

    def __init__(self, chance: Random, accounts: int) -> None:
        self.chance = chance
        self.source = Source(SOURCES)
        self.written = 0
        for account in range(accounts):
            self._account(account, self.branch(), Decimal(0))

    def branch(self) -> str:
        return self.chance.choice(("north", "south", "east"))

    def _account(self, account: int, branch: str, balance: Decimal) -> None:
        self.source.put("accounts", account_id=account, branch=branch, balance=f"{balance:.2f}")

    def transfer(self) -> list[Event]:
        """One transaction: a transfer, now and then also an account that changes its branch."""
        before = len(self.source.events)
        payer, payee = self.chance.sample(sorted(self.source.rows["accounts"]), 2)
        amount = Decimal(self.chance.randint(1, 10_000)) / 100
        for account, change in ((payer, -amount), (payee, amount)):
            held = self.source.rows["accounts"][account]
            branch = self.branch() if self.chance.random() < 0.1 else held["branch"]
            self._account(account, branch, Decimal(held["balance"]) + change)
        self.written += 1
        hour = f"20261120{self.written * 24 // (TRANSFERS + 1):02}"
        self.source.put(
            "transfers",
            transfer_id=self.written,
            payer=payer,
            payee=payee,
            amount=f"{amount:.2f}",
            hour=hour,
        )
        return self.source.events[before:]


def sums(warehouse: Harness, name: str) -> list[Decimal]:
    """Σ balance in each committed version, from the first, by folding the changelog."""
    store = warehouse.table(name).store
    log = store.changelog.read(0, store.version)
    live = pc.is_in(log.column(KIND), pa.array([INSERT, UPDATE_AFTER]))
    balance = log.column("balance").cast(pa.decimal128(38, 2))
    signed = pc.if_else(live, balance, pc.negate(balance))
    by_version = pa.table({"v": log.column(VERSION), "s": signed}).group_by("v").aggregate([("s", "sum")])
    change = dict(
        zip(by_version.column("v").to_pylist(), by_version.column("s_sum").to_pylist(), strict=True)
    )
    found, total = [], Decimal(0)
    for version in range(1, store.version + 1):
        total += change.get(version) or Decimal(0)
        found.append(total)
    return found


def sum_at(warehouse: Harness, name: str, version: int) -> Decimal:
    """Σ balance of the version as a reader of that version sees it."""
    frame = warehouse.table(name).store.frame(warehouse.sessions.flow, version=version)
    return sum((r[0] for r in frame.select("balance").collect()), Decimal(0))


@contextmanager
def beside(*works: Callable[[], None]) -> Iterator[None]:
    """Repeat each of `works` in a thread of its own while the block runs. What they raise is raised."""
    stop, errors = threading.Event(), list[BaseException]()

    def loop(work: Callable[[], None]) -> None:
        try:
            while not stop.wait(0.05):
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def bank() -> Bank:
    return Bank(Random(4711), accounts=max(12, TRANSFERS // 100))


@pytest.fixture
def warehouse(harness: Callable[..., Harness], bank: Bank) -> Harness:
    made = harness(LAYERS, source=bank.source, batch_settings=TRANSFERS > 10_000)
    made.step()
    return made


@pytest.mark.long
@pytest.mark.timeout(0 if TRANSFERS > 10_000 else 900)
def test_every_version_of_every_table_sums_to_zero(warehouse: Harness, bank: Bank) -> None:
    """Micro-batches hold whole transactions. Compactions and readers go on beside the stream."""
    derived = [str(t.name) for t in warehouse.derived]
    chance = Random(1)
    reads = 0

    def read() -> None:
        nonlocal reads
        for name in ("dws.by_branch", "dws.total"):
            store = warehouse.table(name).store
            if not store.cold:
                balances = store.head().read().column("balance").to_pylist()
                assert sum(balances, Decimal(0)) == 0, f"a reader saw {name} with {balances}"
                reads += 1

    def compact_one() -> None:
        compact(warehouse.sessions.batch, warehouse.table(chance.choice(derived)), run_id="test")

    batches = 0
    with beside(read, compact_one):
        while bank.written < TRANSFERS:
            most = min(max(2 * TRANSFERS // BATCHES, 1), LARGEST)
            for _ in range(min(bank.chance.randint(1, most), TRANSFERS - bank.written)):
                bank.transfer()
            warehouse.step()
            batches += 1
    assert reads
    for name in derived:
        found = sums(warehouse, name)
        assert not any(found), f"{name}: Σ balance by version {found}"
        assert len(found) > batches / 2, f"{name} has {len(found)} versions after {batches} micro-batches"
        for version in {1, len(found), chance.randint(1, len(found))}:
            assert sum_at(warehouse, name, version) == 0
    held = warehouse.table("dws.unexplained").store.changelog.read(0, 10**9).column("balance")
    assert not any(held.to_pylist()), "an account and its transfers disagreed in some version"
    assert_batch(warehouse, proof=True)


def assert_batch(warehouse: Harness, *, proof: bool = False) -> None:
    for name, what in warehouse.differing(proof=proof):
        pytest.fail(f"{name} is not its batch result: {what}")


class Kafka:
    """The bank's topics as a reader meets them: each in order, none in step with another, so that a read ends
    within transactions. Debezium's transaction topic names each transaction and counts its events."""

    TOPIC = "shop.transaction"

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.queues: dict[str, list[Event]] = {f"shop.public.{t}": [] for t in SOURCES} | {self.TOPIC: []}
        self.announced = 0

    def transfers(self, count: int) -> None:
        """Commit transactions at the source."""
        for _ in range(count):
            events = self.bank.transfer()
            self.bank.source.take()
            name = str(self.bank.written)
            for event in events:
                self.queues[event.topic].append(event._replace(transaction=name))
            counts = Counter(e.topic.removeprefix("shop.") for e in events)
            listed = [{"data_collection": t, "event_count": n} for t, n in counts.items()]
            for status, content in (("BEGIN", {}), ("END", {"data_collections": listed})):
                self._announce({"status": status, "id": name, **content})

    def _announce(self, content: dict[str, object]) -> None:
        message = Event(
            self.TOPIC, 0, self.announced, "", None, None, None, 0, 0, None, json.dumps(content).encode()
        )
        self.queues[self.TOPIC].append(message)
        self.announced += 1

    def read(self, *, everything: bool = False) -> list[Event]:
        """The next messages: of each topic as many as have come by now."""
        found = []
        for queue in self.queues.values():
            count = len(queue) if everything else self.bank.chance.randint(0, len(queue))
            found += queue[:count]
            del queue[:count]
        return found


@pytest.mark.long
def test_transactions_torn_by_kafka_are_seen_whole(warehouse: Harness, bank: Bank) -> None:
    """Reads end within transactions; what is applied ends between two, so no version shows half of one."""
    kafka = Kafka(bank)
    gate = Gate([Transactions(Kafka.TOPIC, {f"shop.public.{t}" for t in SOURCES})])
    gate.admit([], {})  # reading begins between two transactions
    torn = 0
    for turn in range(10):
        kafka.transfers(2)
        read = kafka.read(everything=turn == 9)
        ready, _ = gate.admit(read, {})
        torn += len(ready) != len([e for e in read if e.topic != Kafka.TOPIC])
        warehouse.advance(warehouse.feed(ready))
        assert_batch(warehouse)
    assert torn, "no read ended within a transaction"
    for table in warehouse.derived:
        found = sums(warehouse, str(table.name))
        assert not any(found), f"{table.name}: Σ balance by version {found}"
    assert len(warehouse.rows("dwd.entries")) == 2 * bank.written, "something was never let through"


def test_without_transaction_topic_tables_are_whole_again_with_the_last_event(
    warehouse: Harness, bank: Bank
) -> None:
    """A source that does not announce its transactions: a micro-batch may end within one. Each table is its
    SQL at its frontier then too, half a transaction included; the rest of the transaction makes it whole."""
    halves = 0
    for _ in range(3):
        events = bank.transfer()
        bank.source.take()
        cut = bank.chance.randint(1, len(events) - 1)
        warehouse.advance(warehouse.feed(events[:cut]))
        assert_batch(warehouse)
        halves += any(any(sums(warehouse, str(t.name))[-1:]) for t in warehouse.derived)
        warehouse.advance(warehouse.feed(events[cut:]))
        assert_batch(warehouse)
        latest = {str(t.name): sums(warehouse, str(t.name))[-1] for t in warehouse.derived}
        assert not any(latest.values()), f"Σ balance after the last event of a transaction: {latest}"
    assert halves, "no transaction was torn"
