"""Tables are created, changed and dropped while everything else streams, in the real stack."""

from __future__ import annotations

from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pyarrow.parquet as pq
import pytest
from chain_support import eventually
from running_shop import Shop, check_changelog

from headrace.gateway.client import StatementFailed
from headrace.gateway.errors import StatementRefused
from headrace.results import ApplyResult, EraseResult, ImmutableResult, ParityResult, Statement
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.messages import read_once
from headrace.sources.stream.topics import Topics
from headrace.spec import load_project

pytestmark = pytest.mark.long

TABLE, READ, NEIGHBOUR = "dws.user_gmv", "dwd.orders", "dws.user_hour"
QUERY = "SELECT user_id, sum(amount) AS gmv FROM dwd.orders GROUP BY user_id"
WIDER = "SELECT user_id, sum(amount) AS gmv, count(*) AS orders FROM dwd.orders GROUP BY user_id"
CREATE = (
    f"CREATE MATERIALIZED TABLE {TABLE} (PRIMARY KEY (user_id))\nFRESHNESS = INTERVAL '10' SECOND\nAS {QUERY}"
)


def run(shop: Shop, statement: str) -> ApplyResult:
    result = ApplyResult.model_validate(shop.client.run(statement).result)
    shop.project = load_project(shop.settings.project)
    return result


def changes_of(result: ApplyResult) -> dict[str, tuple[str, bool]]:
    return {t.table: (t.change, t.begins_again) for t in result.tables}


def source(shop: Shop, statement: str) -> None:
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute(statement)


def test_a_table_lives_by_statements_beside_its_neighbours(shop: Shop) -> None:
    file = shop.settings.project / "layers" / "dws" / "user_gmv.sql"
    with shop.load(seed=41) as load:
        assert changes_of(run(shop, CREATE)) == {TABLE: ("ADDED", False)}
        shop.wait_running()
        eventually("it has rows", lambda: shop.status()[TABLE].rows)
        shop.wait_advanced(TABLE, NEIGHBOUR, by=2)
        with pytest.raises(StatementFailed, match=r"`dws.user_gmv` exists. Next: CREATE OR ALTER"):
            run(shop, CREATE)

        before = shop.status()
        altered = run(shop, f"ALTER MATERIALIZED TABLE {TABLE} AS {WIDER}")
        assert changes_of(altered) == {TABLE: ("LOGIC", True)}
        assert file.read_text() == CREATE.replace(QUERY, WIDER) + "\n"
        assert shop.status()[NEIGHBOUR].version > before[NEIGHBOUR].version  # its flow went on
        shop.wait_advanced(TABLE, NEIGHBOUR, by=2)
        [row] = shop.client.query(f"SELECT sum(orders) AS n FROM {TABLE}").to_pylist()
        assert row["n"] > 1000

        file.write_text(file.read_text().replace("FROM dwd.orders", "FROM dwd.orders WHERE amount > 100"))
        assert changes_of(run(shop, "APPLY DRY RUN")) == {TABLE: ("LOGIC", False)}
        with pytest.raises(StatementFailed, match=r"user_gmv.sql is not as it was applied last"):
            run(shop, f"ALTER MATERIALIZED TABLE {TABLE} AS {QUERY}")
        applied = run(shop, "APPLY")
        [table] = applied.tables
        assert table.refreshed is not None and table.refreshed.updated > 0
        shop.wait_advanced(TABLE, NEIGHBOUR, by=2)
        back = run(shop, f"ALTER MATERIALIZED TABLE {TABLE} ROLLBACK")
        assert changes_of(back) == {TABLE: ("LOGIC", False)}
        assert file.read_text() == CREATE.replace(QUERY, WIDER) + "\n"
        load.raise_if_failed()
        shop.verify(TABLE)
    shop.wait_caught_up()
    shop.verify(TABLE, READ)
    check_changelog(shop.path(TABLE, "changelog"), ["user_id"])

    with pytest.raises(StatementFailed, match=r"`dwd.orders` is read by "):
        run(shop, f"DROP MATERIALIZED TABLE {READ}")
    assert changes_of(run(shop, f"DROP MATERIALIZED TABLE {TABLE}")) == {TABLE: ("REMOVED", False)}
    assert TABLE not in shop.status()
    assert not file.exists() and not shop.path(TABLE, "snapshot").exists()
    with pytest.raises(StatementRefused, match=f"no table `{TABLE}`"):
        shop.client.query(f"SELECT * FROM {TABLE}")
    assert run(shop, f"DROP MATERIALIZED TABLE IF EXISTS {TABLE}").tables == []
    shop.check_changelogs()


def test_a_calendar_lets_a_daily_report_stream_for_its_day(shop: Shop) -> None:
    """From the next full minute on, which is at least ten seconds away: time for its first rows."""
    begins = (datetime.now(UTC) + timedelta(seconds=70)).replace(second=0, microsecond=0)
    entry = f"{begins:%Y-%m-%d} {begins:%H:%M}/24:00 = 10 SECOND"
    report = CREATE.replace(
        "INTERVAL '10' SECOND", f"INTERVAL '1' DAY WITH ('freshness.calendar' = '{entry}')"
    )
    with shop.load(seed=43) as load:
        run(shop, report)
        shop.wait_running()
        daily = shop.status()[TABLE]
        assert (daily.mode, daily.declared_freshness) == ("INCREMENTAL", 86_400)
        eventually("the hour has come", lambda: shop.status()[TABLE].mode == "CONTINUOUS")
        assert datetime.now(UTC) >= begins
        assert shop.status()[TABLE].declared_freshness == 10
        shop.wait_advanced(TABLE, NEIGHBOUR, by=2)
        load.raise_if_failed()
    explained = shop.client.run(f"EXPLAIN MATERIALIZED TABLE {TABLE}").result
    assert explained["freshness_origin"] == f"its calendar: {entry}"
    assert [
        (d["what"], d["was"], d["became"]) for d in explained["decisions"] if d["what"] != "MEASURED"
    ] == [
        ("REFRESH_MODE", "INCREMENTAL", "CONTINUOUS"),
        ("FRESHNESS", "INTERVAL '1' DAY", "INTERVAL '10' SECOND"),
    ]
    shop.wait_caught_up()
    shop.verify(TABLE)
    check_changelog(shop.path(TABLE, "changelog"), ["user_id"])
    run(shop, f"DROP MATERIALIZED TABLE {TABLE}")


def test_a_stg_table_gets_columns_and_goes_on_after_the_same_position(shop: Shop) -> None:
    words, readers = "stg.page_words", ("dwd.partition_word_count", "dws.partition_word_count")
    file = shop.settings.project / "layers" / "stg" / "page_words.sql"
    text = file.read_text()
    assert shop.status().keys() >= {words, *readers}
    with shop.load(seed=42):
        source(shop, "ALTER TABLE page_words ADD COLUMN seen integer DEFAULT 7")
        evolving = text.replace("WITH (", "WITH ('schema.change.behavior' = 'evolve', ")
        file.write_text(evolving.replace("SELECT *,", "SELECT *, upper(word) AS loud,"))
        applied = changes_of(run(shop, "APPLY"))  # the column of the source came by itself, or comes with it
        assert applied == {words: ("LOGIC", False)}
        shop.wait_running()
        shop.wait_advanced(words, "stg.orders", by=2)
        rows = f"SELECT count(*) AS n FROM {words} WHERE loud = upper(word) AND seen = 7"
        assert shop.client.query(rows).to_pylist()[0]["n"] >= 400
        shop.verify(words)
        file.write_text(evolving)
        source(shop, "ALTER TABLE page_words DROP COLUMN seen")
        assert changes_of(run(shop, "APPLY"))[words] == ("LOGIC", True)
        shop.wait_running()
        file.write_text(text)
        assert changes_of(run(shop, "APPLY")) == {words: ("PROPERTIES", False)}
    assert not {"seen", "loud"} & set(shop.client.query(f"SELECT * FROM {words} LIMIT 1").column_names)
    shop.wait_caught_up()
    shop.verify(words, *readers)
    shop.check_changelogs()


def test_a_changed_table_is_proven_aside_while_the_former_one_streams(shop: Shop) -> None:
    file = shop.settings.project / "layers" / "dws" / "user_gmv.sql"
    run(shop, CREATE)
    shop.wait_running()
    shop.wait_caught_up()
    states: dict[str, str] = {}

    def watch(statement: Statement) -> None:
        states[statement.message] = shop.status()[TABLE].state

    file.write_text(file.read_text().replace("FROM dwd.orders", "FROM dwd.orders WHERE amount > 100"))
    assert changes_of(run(shop, "APPLY BLUE GREEN DRY RUN")) == {TABLE: ("LOGIC", False)}
    with shop.load(seed=44) as load:
        shop.wait_advanced(TABLE, NEIGHBOUR)
        before = shop.status()
        applied = ApplyResult.model_validate(shop.client.run("APPLY BLUE GREEN", watch).result)
        assert changes_of(applied) == {TABLE: ("LOGIC", False)}
        assert [(p.table, p.against, p.equal) for p in applied.proofs] == [(TABLE, "batch", True)]
        aside = {said: state for said, state in states.items() if "aside" in said or "proving" in said}
        assert aside and set(aside.values()) == {"RUNNING"}, states
        [table] = applied.tables
        assert table.refreshed is not None and table.refreshed.updated > 0
        assert shop.status()[NEIGHBOUR].version > before[NEIGHBOUR].version
        shop.wait_advanced(TABLE, NEIGHBOUR, by=2)
        load.raise_if_failed()
    shop.wait_caught_up()
    shop.verify(TABLE)
    [sums] = shop.client.query(
        f"SELECT (SELECT sum(gmv) FROM {TABLE}) AS table, "
        "(SELECT sum(amount) FROM dwd.orders WHERE amount > 100) AS large, "
        "(SELECT sum(amount) FROM dwd.orders) AS all"
    ).to_pylist()
    assert sums["table"] == sums["large"] < sums["all"]
    check_changelog(shop.path(TABLE, "changelog"), ["user_id"])  # its versions go on over the swap

    words = shop.settings.project / "layers" / "stg" / "page_words.sql"
    text = words.read_text()
    words.write_text(text.replace("SELECT *,", "SELECT *, upper(word) AS loud,"))
    try:
        with pytest.raises(
            StatementFailed, match=r"`stg.page_words` cannot be built aside: it reads a source"
        ):
            run(shop, "APPLY BLUE GREEN")
    finally:
        words.write_text(text)
    assert run(shop, "APPLY DRY RUN").tables == []
    run(shop, f"DROP MATERIALIZED TABLE {TABLE}")


def test_of_a_deleted_row_nothing_is_left_in_files_and_topic(shop: Shop) -> None:
    users, mark, topic = "stg.users", "Qwxyzburg", "shop.public.users"
    erase = f"ALTER MATERIALIZED TABLE {users} ERASE KEY (900001)"
    source(shop, f"INSERT INTO users VALUES (900001, 'A. B.', 'a@b.c', '{mark}', now(), now())")
    shop.wait_caught_up()
    eventually("a snapshot has it", lambda: mark in files(shop, users, "snapshot"))
    with pytest.raises(
        StatementFailed, match=r"`shop.public.users` still has the row.*Next: DELETE FROM public.u"
    ):
        shop.client.run(erase)
    source(shop, f"UPDATE users SET city = '{mark} am Rhein' WHERE user_id = 900001")
    source(shop, "DELETE FROM users WHERE user_id = 900001")
    with shop.load(seed=45) as load:
        shop.wait_advanced(READ)
        found = EraseResult.model_validate(shop.client.run(f"{erase} DRY RUN").result)
        assert {p.place for p in found.places if p.table == users and p.found} >= {
            "changelog",
            "snapshot",
            "topic",
        }
        assert mark in files(shop, users) and mark in messages(shop, topic)

        result = EraseResult.model_validate(shop.client.run(erase).result)
        assert result.complete and "dwd.order_items" in {place.table for place in result.places}
        assert mark not in files(shop, users) and mark not in messages(shop, topic)
        source(shop, "UPDATE users SET city = 'Ulm an der Donau' WHERE user_id = 3")
        shop.wait_advanced(users, READ, NEIGHBOUR)
        load.raise_if_failed()
    shop.wait_running()
    shop.wait_caught_up()
    shop.verify(users, "dwd.order_items")
    shop.check_changelog(users)


def files(shop: Shop, table: str, part: str = "") -> str:
    """All that is in the files of a table, those of Parquet read too."""
    found = []
    for path in (p for p in shop.path(table, part).rglob("*") if p.is_file()):
        with suppress(FileNotFoundError):  # gone since it was listed
            found.append(path.read_bytes().decode("latin-1"))
            if path.suffix == ".parquet":
                found.append(str(pq.read_table(path, partitioning=None).to_pylist()))
    return "".join(found)


def messages(shop: Shop, topic: str) -> str:
    """All that the topic still has."""
    broker = Broker.of(shop.settings)
    with closing(Topics.of(broker)) as topics:
        bounds = topics.bounds([topic])[topic]
    begin, end = ({topic: {p: both[at] for p, both in bounds.items()}} for at in (0, 1))
    return str(read_once(broker, begin, end).to_pylist())


def test_immutable_partitions_stay_as_they_are_until_they_are_opened(shop: Shop) -> None:
    closed_by = "ALTER MATERIALIZED TABLE dws.user_closed"
    create = (
        "CREATE OR ALTER MATERIALIZED TABLE dws.user_closed (PRIMARY KEY (user_id, logdate))\n"
        "PARTITIONED BY (logdate)\nWITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')\n"
        "FRESHNESS = INTERVAL '10' SECOND\n"
        "AS SELECT user_id, logdate, sum(amount) AS gmv FROM dwd.orders GROUP BY user_id, logdate"
    )
    run(shop, create)
    shop.wait_running()
    shop.wait_caught_up()
    hours = "SELECT DISTINCT logdate FROM dws.user_closed ORDER BY logdate"
    labels: list[str] = shop.client.query(hours).column(0).to_pylist()
    old, bound = labels[-60], labels[-40]

    def gmv(table: str, hour: str) -> dict[int, Decimal]:
        rows = shop.client.query(f"SELECT user_id, gmv FROM {table} WHERE logdate = '{hour}'").to_pylist()
        return {row["user_id"]: row["gmv"] for row in rows}

    def by_query(hour: str) -> dict[int, Decimal]:
        text = "(SELECT user_id, logdate, sum(amount) AS gmv FROM dwd.orders GROUP BY user_id, logdate)"
        return gmv(text, hour)

    def proven_from() -> str:
        [result] = shop.client.run("VERIFY dws.user_closed").result
        parity = ParityResult.model_validate(result)
        assert parity.equal and parity.error is None, parity
        return parity.immutable_before

    moved = ImmutableResult.model_validate(
        shop.client.run(f"{closed_by} SET IMMUTABLE WHERE (logdate < '{bound}')").result
    )
    assert (moved.before, moved.was, moved.refreshed) == (bound, "", None)
    kept, open_before = gmv("dws.user_closed", old), gmv("dws.user_closed", bound)
    assert kept and kept == by_query(old)
    for hour in (old, bound):
        source(
            shop,
            "UPDATE orders SET amount = amount + 1 WHERE amount > 0 AND "
            f"to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24') = '{hour}'",
        )
    eventually("the open hour has changed", lambda: gmv("dws.user_closed", bound) != open_before)
    shop.wait_caught_up()
    assert gmv("dws.user_closed", bound) == by_query(bound)
    assert gmv("dws.user_closed", old) == kept != by_query(old)
    assert proven_from() == bound
    described = shop.client.run("DESCRIBE MATERIALIZED TABLE dws.user_closed").result
    assert described["immutable_before"] == bound
    with pytest.raises(StatementFailed, match=f"partitions before '{bound}' are immutable"):
        shop.client.run(f"{closed_by} REFRESH PARTITION (logdate = '{old}')")

    opened = ImmutableResult.model_validate(shop.client.run(f"{closed_by} RESET IMMUTABLE").result)
    assert (opened.before, opened.was) == ("", bound)
    assert opened.refreshed is not None and opened.refreshed.updated == len(kept)
    assert gmv("dws.user_closed", old) == by_query(old) != kept
    assert proven_from() == ""

    clause = f"SECOND\nIMMUTABLE WHERE (logdate < '{bound}')\nAS"
    declared = run(shop, create.replace("SECOND\nAS", clause))
    assert changes_of(declared) == {"dws.user_closed": ("PROPERTIES", False)}
    eventually("the file closes them", lambda: proven_from() == bound)
    with pytest.raises(StatementFailed, match=r"user_closed\.sql: IMMUTABLE WHERE .* closes them"):
        shop.client.run(f"{closed_by} RESET IMMUTABLE")
    run(shop, "DROP MATERIALIZED TABLE dws.user_closed")
