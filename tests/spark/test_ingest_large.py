"""Large micro-batches: the same table, deletes and account as the same events give in small ones."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from feeding import feed_large, messages
from harness import SOURCES, Captured, Harness, Source

from headrace.engine.ingest.arrow import ingest_local, local_query
from headrace.engine.ingest.first_snapshot import give_up
from headrace.engine.ingest.spark import Loaded
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table
from headrace.errors import NeedsResync, SpecError
from headrace.sources.columns import unsent_column, unsent_sql
from headrace.sources.postgres.types import column
from headrace.sources.stream.envelope import Event, fault_sql
from headrace.store.frames import local
from headrace.store.schema import SEQUENCE

MOMENT = Captured(
    (
        ("id", "bigint"),
        ("at", "timestamp with time zone"),
        ("amount", "numeric(9,3)"),
        ("small", "integer"),
        ("good", "boolean"),
        ("note", "text"),
        ("born", "date"),
        ("seen", "timestamp without time zone"),
    ),
    ("id",),
)
TABLES = {**SOURCES, "moments": MOMENT}
WITHIN = (
    "key",
    "op",
    "value",
    "offset",
    "lsn",
    "topic",
    "partition",
    "snapshot",
    "source_ms",
    "before",
    "after",
)
NAMED = Captured((("id", "bigint"), *((name, "text") for name in WITHIN)), ("id",))
FILES = Captured((("id", "bigint"), ("name", "text"), ("bytes", "bytea")), ("id",))
PLACEHOLDER = "__debezium_unavailable_value"
Feed = Callable[[Harness, Table, list[Event]], Any]


def feed_small(warehouse: Harness, table: Table, events: list[Event]) -> None:
    warehouse.feed(events, only=str(table.name))


def feed_arrow(warehouse: Harness, table: Table, events: list[Event]) -> Loaded | None:
    """In pieces of three messages; None where that is left to Spark."""
    query, ends = local_query(table), {events[0].topic: {0: max(e.offset for e in events) + 1}}
    assert query is not None
    pieces = (messages(events[i : i + 3]) for i in range(0, len(events), 3))
    return ingest_local(warehouse.sessions.batch, table, query, pieces, ends, run_id="test", batch=0)


def changed(warehouse: Harness, chance: random.Random) -> None:
    source = warehouse.source
    for _ in range(chance.randint(2, 25)):
        key = chance.randint(1, 9)
        name = chance.choice(list(TABLES))
        if key in source.rows[name] and chance.random() < 0.3:
            source.delete(name, key)
        elif name == "users":
            source.put("users", user_id=key, city=chance.choice(["Oslo", "Lima", "", None, 'a "b" \\ ü\n']))
        elif name == "orders":
            hour = chance.choice(["2026112010", "2026112011", "1999010100"])
            amount = f"{chance.randint(1, 99)}.{chance.randint(0, 9)}0"
            source.put("orders", order_id=key, user_id=1, amount=amount, hour=hour)
        else:
            at = f"2026-11-2{chance.randint(0, 9)}T10:00:00{chance.choice(['', '.5', '.123456'])}Z"
            source.put(
                "moments",
                id=key,
                at=chance.choice([at, None]),
                amount=chance.choice(["0", "-1.5", "123456.789", None]),
                small=chance.choice([-3, 2**31 - 1, None]),
                good=chance.choice([True, False, None]),
                note=chance.choice(["x", None]),
                born=chance.choice([0, 20_000, -30_000, None]),
                seen=chance.choice([0, 1_700_000_000_123_456, -5, None]),
            )


def state(table: Table) -> dict[str, Any]:
    """What the table holds, what blocks resurrection, and where it stands."""
    rows = table.store.head().read()
    columns = table.store.schema.stored_names
    live = sorted(zip(*(rows.column(c).to_pylist() for c in columns), strict=True), key=repr)
    keys = {(k,) for k in range(1, 12)}
    held = {row[columns.index(table.store.schema.key[0])] for row in live}
    blocked = {k: s for k, s in table.store.deletes.find(keys).items() if k[0] not in held}
    commit = table.store.commit
    return {"rows": live, "deleted": blocked, "count": commit.rows, "high": commit.high, "at": commit.offsets}


def reappear(events: list[Event], again: list[Event]) -> list[Event]:
    """`again`, older events, delivered a second time after `events`."""
    first = max(e.offset for e in events) + 1
    return [*events, *(e._replace(offset=first + i) for i, e in enumerate(again))]


@pytest.mark.long
def test_large_batches_equal_small_ones(harness: Callable[..., Harness]) -> None:
    seed = 1
    chance = random.Random(seed)
    spark, arrow, small = (harness({}, sources=TABLES) for _ in range(3))
    past: dict[str, list[Event]] = {name: [] for name in TABLES}
    shifts = dict.fromkeys(TABLES, 0)
    for step in range(5):
        changed(spark, chance)
        events = spark.source.take()
        for name in TABLES:
            own = [e for e in events if e.topic.endswith(f".{name}")]
            if not own:
                continue
            own = [e._replace(offset=e.offset + shifts[name]) for e in own]
            repeats = step == 2 and bool(past[name])
            if repeats:  # a connector that was killed sends some events again
                again = chance.sample(past[name], min(6, len(past[name])))
                repeated = reappear(own, sorted(again, key=lambda e: e.lsn))
                shifts[name] += len(repeated) - len(own)
                own = repeated
            past[name] += own
            tables = [warehouse.table(f"stg.{name}") for warehouse in (spark, arrow, small)]
            feed_large(spark, tables[0], own)
            if feed_arrow(arrow, tables[1], own) is None:
                assert repeats, (seed, step, name)  # nothing else is left to Spark
                feed_large(arrow, tables[1], own)
            small.feed(own, only=f"stg.{name}")
            accounts = [table.store.commit.accounting for table in tables]
            for table, account in zip(tables[:2], accounts, strict=False):
                assert state(table) == state(tables[2]), (seed, step, name)
                assert account == accounts[2], (seed, step, name)
                assert table.store.head().read().column(SEQUENCE).null_count == 0


USERS = "CREATE MATERIALIZED TABLE stg.users {}FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.users{}"
LEAVING_OUT = {
    "a filter": (USERS.format("", " WHERE city >= 'M'"), {""}),
    "constraints": (
        USERS.format(
            "(CONSTRAINT known EXPECT (user_id < 7) ON VIOLATION QUARANTINE, "
            "CONSTRAINT late EXPECT (city >= 'M') ON VIOLATION QUARANTINE, "
            "CONSTRAINT short EXPECT (length(city) < 6) ON VIOLATION DROP ROW) ",
            " WHERE city <> 'Xi'",
        ),
        {"known", "late", ""},
    ),
}


@pytest.mark.parametrize("by", list(LEAVING_OUT))
def test_rows_that_are_left_out_are_told_apart_alike(harness: Callable[..., Harness], by: str) -> None:
    """A filtered row, one in quarantine, one that leaves the table: alike in all three places."""
    text, reasons = LEAVING_OUT[by]
    feeds = [feed_small, feed_large, *([feed_arrow] if by == "a filter" else [])]
    warehouses = [harness({"stg/users": text}, sources=TABLES) for _ in feeds]
    source, chance = warehouses[0].source, random.Random(7)
    seen: dict[str, int] = {}
    for step in range(4):
        for _ in range(14):
            key = chance.randint(1, 9)
            if key in source.rows["users"] and chance.random() < 0.3:
                source.delete("users", key)
            else:
                source.put("users", user_id=key, city=chance.choice(["Oslo", "Xi", "Lima", "Stockholm"]))
        events = source.take()
        held = {row[0] for row in warehouses[0].rows("stg.users")}
        for warehouse, feed in zip(warehouses, feeds, strict=True):
            feed(warehouse, warehouse.table("stg.users"), events)
        accounts = [w.table("stg.users").store.commit.accounting for w in warehouses]
        assert accounts[1:] == accounts[:-1], step
        rows = [w.rows("stg.users") for w in warehouses]
        assert rows[1:] == rows[:-1], step
        touched = {json.loads(e.key or "")["user_id"] for e in events}
        out = [k for k in touched - held if k in source.rows["users"]]
        out = [k for k in out if k not in {row[0] for row in rows[0]}]
        left = {"": accounts[0]["filtered"], **accounts[0]["quarantined"]}
        assert sum(left.values()) == len(out), step
        for reason, n in left.items():
            seen[reason] = seen.get(reason, 0) + n
        assert left.get("known", 0) == sum(
            by == "constraints" and key >= 7 for key in out if _passes(source, key)
        )
    assert seen.keys() == set(reasons) and all(seen.values())


def _passes(source: Source, key: int) -> bool:
    """The query's own filter, not its constraints."""
    return bool(source.rows["users"][key]["city"] != "Xi")


@pytest.mark.parametrize("fault", ["value", "after", "unsent", "position"])
def test_arrow_leaves_what_it_does_not_read_to_spark(harness: Callable[..., Harness], fault: str) -> None:
    warehouse = harness({}, sources=TABLES)
    warehouse.source.put("users", user_id=1, city="Oslo")
    warehouse.source.put("users", user_id=2, city="__debezium_unavailable_value" if fault == "unsent" else "")
    events = warehouse.source.take()
    if fault == "value":
        events[1] = events[1]._replace(value=b'{"op": "c"')
    elif fault == "after":
        events[1] = events[1]._replace(after=None)
    elif fault == "position":
        events[1] = events[1]._replace(value=b'{"op": "c", "after": {"user_id": 2, "city": ""}}')
    assert feed_arrow(warehouse, warehouse.table("stg.users"), events) is None
    assert warehouse.table("stg.users").store.version == 0


def test_faults_are_put_aside_and_tombstones_counted(harness: Callable[..., Harness]) -> None:
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.orders")
    for key in (1, 2, 3):
        warehouse.source.put("orders", order_id=key, user_id=1, amount="1.00", hour="2026112010")
    warehouse.source.delete("orders", 3)
    events = warehouse.source.take()
    broken = events[1]._replace(value=b'{"op": "u"')
    buried = events[3]._replace(offset=4, value=None)
    feed_large(warehouse, table, [events[0], broken, *events[2:], buried])
    assert [row[0] for row in state(table)["rows"]] == [1]
    account = table.store.commit.accounting
    assert (account["events"], account["dead_letters"], account["tombstones"]) == (5, 1, 1)
    assert [row["offset"] for row in warehouse.dead_letters.rows()] == [1]


@pytest.mark.parametrize("feed", [feed_small, feed_large, feed_arrow])
def test_a_row_without_key_or_position_is_no_row(harness: Callable[..., Harness], feed: Feed) -> None:
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.users")
    for key in (1, 2, 3):
        warehouse.source.put("users", user_id=key, city="Oslo")
    events = warehouse.source.take()
    events[1] = events[1]._replace(after='{"city": "Oslo"}')
    events[2] = events[2]._replace(lsn=0)
    if feed is feed_arrow:
        for event in events[1:]:
            assert feed(warehouse, table, [events[0], event]) is None
        return
    feed(warehouse, table, events)
    assert warehouse.rows("stg.users") == [(1, "Oslo")]
    says = [row["reason"] for row in sorted(warehouse.dead_letters.rows(), key=lambda r: r["offset"])]
    assert "key column `user_id` has no value" in says[0]
    assert "no log position" in says[1]


@pytest.mark.parametrize("feed", [feed_large, feed_arrow])
def test_debeziums_snapshot_has_one_position(
    harness: Callable[..., Harness], feed: Callable[[Harness, Table, list[Event]], Loaded]
) -> None:
    """Several batches of reads at one LSN, one of them delivered twice."""
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.users")
    for key in range(6):
        warehouse.source.put("users", user_id=key, city="Oslo")
    events = [e._replace(op="r", lsn=500, snapshot="true") for e in warehouse.source.take()]
    events[-1] = events[-1]._replace(snapshot="last")
    assert feed(warehouse, table, events[:2]).loading
    assert feed(warehouse, table, [*events[2:4]]).loading
    again = [events[3]._replace(offset=4), *(e._replace(offset=e.offset + 1) for e in events[4:])]
    assert not feed(warehouse, table, again).loading
    assert [row[0] for row in state(table)["rows"]] == list(range(6))
    account = table.store.commit.accounting
    assert (account["inserted"], account["unchanged"] + account["duplicate"]) == (2, 1)


@pytest.mark.parametrize("feed", [feed_small, feed_large, feed_arrow])
def test_a_first_snapshot_that_began_anew_is_not_trusted(harness: Callable[..., Harness], feed: Feed) -> None:
    """What was deleted between the two attempts is in no event."""
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.users")
    for key in range(6):
        warehouse.source.put("users", user_id=key, city="Oslo")
    events = [e._replace(op="r", lsn=500, snapshot="true") for e in warehouse.source.take()]
    anew = [e._replace(lsn=600) for e in events[2:]]
    with pytest.raises(NeedsResync, match=r"began anew.*Next: wait, or `headrace resync stg\.users`"):
        feed(warehouse, table, [*events[:2], *anew])
    feed(warehouse, table, events[:2])
    with pytest.raises(NeedsResync, match="began anew"):
        feed(warehouse, table, anew)
    assert table.store.commit.snapshot == 500 and table.store.version == 1
    give_up(table, "test")  # as where the second attempt found no rows
    with pytest.raises(NeedsResync, match="began anew"):
        feed(warehouse, table, [events[2]._replace(offset=9)])


@pytest.mark.parametrize("feed", [feed_small, feed_large, feed_arrow])
def test_a_snapshot_after_changes_is_not_trusted(harness: Callable[..., Harness], feed: Feed) -> None:
    """As where the connector has lost its offsets: what was deleted before it is in no event."""
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.users")
    for key in range(6):
        warehouse.source.put("users", user_id=key, city="Oslo")
    events = warehouse.source.take()
    read = [e._replace(op="r", lsn=5, snapshot="true") for e in events[:3]]
    at = events[-1].lsn + 100
    asked = [e._replace(op="r", lsn=at, offset=e.offset + 6, snapshot="true") for e in events[:2]]
    with pytest.raises(NeedsResync, match="has lost its offsets"):
        feed(warehouse, table, [*read, *events[3:], *asked])
    feed(warehouse, table, [*read, *events[3:]])
    with pytest.raises(NeedsResync, match="has lost its offsets"):
        feed(warehouse, table, asked)
    assert [row[0] for row in state(table)["rows"]] == list(range(6))
    assert (table.store.commit.snapshot, table.store.version) == (5, 1)
    feed(warehouse, table, [e._replace(offset=e.offset + 8, snapshot="incremental") for e in asked])


def test_the_rows_of_a_topic_s_other_partition_may_come_after_its_changes(
    harness: Callable[..., Harness],
) -> None:
    warehouse = harness({}, sources=TABLES)
    table = warehouse.table("stg.users")
    for key in range(6):
        warehouse.source.put("users", user_id=key, city="Oslo")
    events = warehouse.source.take()
    at = min(e.lsn for e in events)
    feed_small(warehouse, table, events[3:])
    rows = [e._replace(partition=1, op="r", lsn=at, snapshot="true") for e in events[:3]]
    feed_small(warehouse, table, rows)
    assert [row[0] for row in state(table)["rows"]] == list(range(6))


@pytest.mark.parametrize("feed", [feed_small, feed_large])
def test_a_value_that_was_not_sent_is_not_taken_for_one(harness: Callable[..., Harness], feed: Feed) -> None:
    warehouse = harness({}, sources={"files": FILES})
    table = warehouse.table("stg.files")
    lacking = {"name": PLACEHOLDER, "bytes": base64.b64encode(PLACEHOLDER.encode()).decode()}
    for name, value in lacking.items():
        for row in ({"name": "a", "bytes": "AA=="}, {"name": "a", "bytes": "AA==", name: value}):
            warehouse.source.put("files", id=1, **row)
        events = without_rows_before(warehouse.source.take())
        with pytest.raises(NeedsResync, match=f"column `{name}` was not sent.*REPLICA IDENTITY FULL"):
            feed(warehouse, table, events)
    assert table.store.version == 0


def test_a_text_that_is_the_placeholder_is_one_where_the_row_before_is_shown(
    harness: Callable[..., Harness],
) -> None:
    warehouse = harness({}, sources={"files": FILES})
    for name in ("before", PLACEHOLDER):
        warehouse.source.put("files", id=1, name=name, bytes="AA==")
        warehouse.feed()
    assert warehouse.rows("stg.files") == [(1, PLACEHOLDER, b"\x00")]


def without_rows_before(events: list[Event]) -> list[Event]:
    """As of a table whose REPLICA IDENTITY is its key."""
    return [e._replace(before=None) if e.op == "u" else e for e in events]


@pytest.mark.parametrize("feed", [feed_small, feed_large])
def test_only_a_row_that_stays_must_have_been_sent(harness: Callable[..., Harness], feed: Feed) -> None:
    """Nor is a text that quotes the placeholder one."""
    warehouse = harness({}, sources={"files": FILES})
    for name in (PLACEHOLDER, f"see {PLACEHOLDER}"):
        warehouse.source.put("files", id=1, name=name, bytes="AA==")
    feed(warehouse, warehouse.table("stg.files"), warehouse.source.take())
    assert [row[1] for row in warehouse.rows("stg.files")] == [f"see {PLACEHOLDER}"]


@pytest.mark.parametrize("feed", [feed_small, feed_large, feed_arrow])
def test_columns_may_be_named_as_those_of_a_message(harness: Callable[..., Harness], feed: Feed) -> None:
    warehouse = harness({}, sources={"named": NAMED})
    for key, text in ((1, "a"), (2, "b"), (1, "c")):
        warehouse.source.put("named", id=key, **dict.fromkeys(WITHIN, text))
    feed(warehouse, warehouse.table("stg.named"), warehouse.source.take())
    assert warehouse.rows("stg.named") == [(key, *[text] * len(WITHIN)) for key, text in ((1, "c"), (2, "b"))]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("_json text", "column `_json` of `shop.public.odd` has a name that headrace uses itself"),
        ("Name text, name text", "returns column `name` more than once"),
    ],
)
def test_columns_that_cannot_be_told_apart_are_refused(
    harness: Callable[..., Harness], columns: str, says: str
) -> None:
    kinds = tuple(tuple(column.split(" ", 1)) for column in columns.split(", "))
    odd = Captured((("id", "bigint"), *kinds), ("id",))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=says):
        harness({}, sources={"odd": odd})


def test_the_rules_of_events_are_sparks_too(sessions: Sessions) -> None:
    texts = [None, "{}"]
    asked = [
        Event("t", 0, 0, key, op, before, after, lsn, 1, None, value and value.encode())
        for key, op, before, after, value, lsn in itertools.product(
            [None, "k"], [None, "c", "r", "u", "d", "t", "x"], texts, texts, texts, [0, 1]
        )
    ]
    kinds = {"key": "string", "op": "string", "before": "string", "after": "string", "value": "string"}
    rows = pa.table({name: pa.array([getattr(e, name) for e in asked]).cast(pa.string()) for name in kinds})
    rows = rows.append_column("lsn", pa.array([e.lsn for e in asked], pa.int64()))
    kinds["lsn"] = "bigint"
    found = local(sessions.flow, rows, tuple(kinds.items())).selectExpr(f"{fault_sql()} AS fault").toArrow()
    expected = [None if e.is_tombstone else e.fault() for e in asked]
    assert found.column("fault").to_pylist() == expected
    assert len(set(expected)) == 9


def test_so_is_what_was_not_sent(sessions: Sessions) -> None:
    columns = [
        column("it's \\ a", "text"),
        column("b", "bytea"),
        column("c", "text[]"),
        column("n", "integer"),
    ]
    names = [c.name for c in columns]
    mark = base64.b64encode(PLACEHOLDER.encode()).decode()
    images = [
        json.dumps(dict(zip(names, values, strict=True)))
        for values in itertools.product(
            [None, "x", PLACEHOLDER, f"{PLACEHOLDER}.", mark],
            [None, mark, "AA=="],
            [None, [PLACEHOLDER], ["x", PLACEHOLDER]],
            [1],
        )
    ]
    rows = pa.table({"image": pa.array(images)})
    told = local(sessions.flow, rows, (("image", "string"),))
    found = told.selectExpr(f"{unsent_sql(columns, 'image')} AS lacks").toArrow().column("lacks").to_pylist()
    expected = [unsent_column(columns, image) for image in images]
    assert found == expected
    assert set(found) == {None, *names[:3]}
