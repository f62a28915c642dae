"""Tables are created, changed and dropped while everything else streams, in the real stack."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop, check_changelog

from headrace.gateway.client import StatementFailed
from headrace.gateway.errors import StatementRefused
from headrace.results import ApplyResult
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
    with shop.load(seed=42):
        source(shop, "ALTER TABLE page_words ADD COLUMN seen integer DEFAULT 7")
        file.write_text(text.replace("SELECT *,", "SELECT *, upper(word) AS loud,"))
        applied = changes_of(run(shop, "APPLY"))
        assert applied[words] == ("LOGIC", True)
        assert applied.keys() <= {words, *readers}
        shop.wait_running()
        shop.wait_advanced(words, "stg.orders", by=2)
        rows = f"SELECT count(*) AS n FROM {words} WHERE loud = upper(word) AND seen = 7"
        assert shop.client.query(rows).to_pylist()[0]["n"] >= 400
        shop.verify(words)
        file.write_text(text)
        source(shop, "ALTER TABLE page_words DROP COLUMN seen")
        assert changes_of(run(shop, "APPLY"))[words] == ("LOGIC", True)
    shop.wait_caught_up()
    shop.verify(words, *(r for r in readers if r in shop.status()))
    shop.check_changelogs()
