"""The statement grammar: what each text means, and where a wrong one is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.gateway import statements as s
from headrace.gateway.cursor import StatementError
from headrace.gateway.parser import parse
from headrace.spec.model import QUARANTINE
from headrace.spec.partitions.label_range import LabelRange

TABLES = {"stg.users": None, "stg.orders": "logdate", "dwd.orders": "logdate", "dws.user_hour": "logdate"}
DAY = LabelRange("2024010100", "2024010123")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW MATERIALIZED TABLES", s.ShowTables()),
        ("show materialized tables ; ;", s.ShowTables()),
        ("SHOW PARTITIONS dws.user_hour", s.ShowPartitions("dws.user_hour")),
        ("SHOW DEAD LETTERS", s.ShowDeadLetters(None)),
        ("SHOW DEAD LETTERS stg.users", s.ShowDeadLetters("stg.users")),
        ("SHOW QUARANTINE dws.user_hour", s.ShowQuarantine("dws.user_hour")),
        ("SHOW ACCOUNTING stg.users", s.ShowAccounting("stg.users")),
        ("SELECT 1 FROM dws.`user_hour$quarantine`", s.Select("SELECT 1 FROM dws.`user_hour$quarantine`")),
        ("SHOW ALL DEAD LETTERS stg.users", s.ShowDeadLetters("stg.users", settled=True)),
        ("ALTER MATERIALIZED TABLE stg.users REPLAY DEAD LETTERS", s.ReplayDeadLetters("stg.users")),
        (
            "ALTER MATERIALIZED TABLE stg.users REPLAY DEAD LETTERS AT '0:7', '1:12'",
            s.ReplayDeadLetters("stg.users", ((0, 7), (1, 12))),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users DROP DEAD LETTERS AT '0:7' REASON 'a test''s'",
            s.DropDeadLetters("stg.users", "a test's", ((0, 7),)),
        ),
        ("DESCRIBE MATERIALIZED TABLE dws.user_hour", s.Describe("dws.user_hour")),
        ("DESC MATERIALIZED TABLE `dws`.`user_hour`", s.Describe("dws.user_hour")),
        ("EXPLAIN MATERIALIZED TABLE DWS.User_Hour", s.Explain("dws.user_hour")),
        ("EXPLAIN MATERIALIZED TABLE dws.user_hour HISTORY;", s.Explain("dws.user_hour", history=True)),
        ("-- why\nALTER MATERIALIZED TABLE dws.user_hour /* now */ SUSPEND", s.Suspend("dws.user_hour")),
        ("ALTER MATERIALIZED TABLE dws.user_hour RESUME", s.Resume("dws.user_hour")),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour SET FRESHNESS = INTERVAL '10' SECOND",
            s.Alter("dws.user_hour", "FRESHNESS", "INTERVAL '10' SECOND"),
        ),
        (
            "alter materialized table stg.users set freshness = interval '1440' minutes",
            s.Alter("stg.users", "FRESHNESS", "INTERVAL '1' DAY"),
        ),
        (
            "ALTER MATERIALIZED TABLE dwd.orders SET FRESHNESS = DOWNSTREAM",
            s.Alter("dwd.orders", "FRESHNESS", "DOWNSTREAM"),
        ),
        (
            "ALTER MATERIALIZED TABLE dwd.orders SET REFRESH_MODE = FULL",
            s.Alter("dwd.orders", "REFRESH_MODE", "FULL"),
        ),
        ("ALTER MATERIALIZED TABLE dwd.orders RESET FRESHNESS", s.Alter("dwd.orders", "FRESHNESS", None)),
        (
            "ALTER MATERIALIZED TABLE dwd.orders RESET REFRESH_MODE",
            s.Alter("dwd.orders", "REFRESH_MODE", None),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION (logdate = '2024010100')",
            s.Refresh("dws.user_hour", LabelRange("2024010100", "2024010100")),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION "
            "(logdate BETWEEN '2024010100' AND '2024010123')",
            s.Refresh("dws.user_hour", DAY),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION (logdate = 'x') CASCADE",
            s.Refresh("dws.user_hour", LabelRange("x", "x"), cascade=True),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH ALL CASCADE DRY RUN",
            s.Refresh("dws.user_hour", None, cascade=True, dry_run=True),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REFRESH CASCADE",
            s.Refresh("stg.users", None, cascade=True),
        ),
        ("ALTER MATERIALIZED TABLE stg.users REFRESH", s.Refresh("stg.users", None)),
        (
            "-- new\nCREATE MATERIALIZED TABLE dws.x (PRIMARY KEY (a)) AS\nSELECT 'b' AS a -- \n FROM dwd.o;",
            s.Create(
                "CREATE MATERIALIZED TABLE dws.x (PRIMARY KEY (a)) AS\nSELECT 'b' AS a -- \n FROM dwd.o",
                or_alter=False,
            ),
        ),
        (
            "create or alter materialized table dws.x AS SELECT ${start_date}",
            s.Create("create or alter materialized table dws.x AS SELECT ${start_date}", or_alter=True),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour AS\nSELECT 1 AS a, 'x;' AS b FROM dwd.orders;",
            s.AlterQuery("dws.user_hour", "SELECT 1 AS a, 'x;' AS b FROM dwd.orders"),
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour SET IMMUTABLE WHERE (logdate < '2026112200')",
            s.SetImmutable("dws.user_hour", "2026112200"),
        ),
        ("alter materialized table dws.user_hour reset immutable;", s.SetImmutable("dws.user_hour", None)),
        ("ALTER MATERIALIZED TABLE stg.users RESYNC", s.Resync("stg.users")),
        ("ALTER MATERIALIZED TABLE stg.users PUBLISH", s.Publish("stg.users")),
        ("alter materialized table stg.users publish dry run;", s.Publish("stg.users", dry_run=True)),
        ("alter materialized table stg.users resync dry run;", s.Resync("stg.users", dry_run=True)),
        (
            "ALTER MATERIALIZED TABLE stg.users RESYNC WHERE city = 'a;b' -- or\n AND user_id < 9;",
            s.Resync("stg.users", where="city = 'a;b' -- or\n AND user_id < 9"),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users RESYNC DRY RUN WHERE user_id = 7",
            s.Resync("stg.users", dry_run=True, where="user_id = 7"),
        ),
        ("ALTER MATERIALIZED TABLE dws.user_hour ROLLBACK;", s.Rollback("dws.user_hour")),
        ("ALTER MATERIALIZED TABLE stg.users ERASE KEY (17)", s.Erase("stg.users", ((None, "17"),))),
        (
            "alter materialized table stg.users erase key ('it''s') with history dry run;",
            s.Erase("stg.users", ((None, "it's"),), history=True, dry_run=True),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users ERASE KEY (grp = 1, id = '2') DRY RUN",
            s.Erase("stg.users", (("grp", "1"), ("id", "2")), dry_run=True),
        ),
        ("ALTER MATERIALIZED TABLE stg.users REWIND TO VERSION 12;", s.Rewind("stg.users", 12)),
        (
            "alter materialized table stg.users rewind to timestamp '2026-11-22 19:30:00' cascade dry run",
            s.Rewind("stg.users", datetime(2026, 11, 22, 19, 30, tzinfo=UTC), cascade=True, dry_run=True),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND TO TIMESTAMP '2026-11-22 19:30:00.250+02:00' DRY RUN",
            s.Rewind("stg.users", datetime(2026, 11, 22, 17, 30, 0, 250_000, tzinfo=UTC), dry_run=True),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND TO TIMESTAMP '2026-11-22T19:30Z' CASCADE",
            s.Rewind("stg.users", datetime(2026, 11, 22, 19, 30, tzinfo=UTC), cascade=True),
        ),
        ("DROP MATERIALIZED TABLE dws.user_hour", s.Drop("dws.user_hour")),
        ("DROP MATERIALIZED TABLE IF EXISTS dws.user_hour", s.Drop("dws.user_hour")),
        ("drop materialized table if exists dws.none;", s.Drop(None)),
        ("APPLY", s.Apply()),
        ("apply dry run;", s.Apply(dry_run=True)),
        ("APPLY BLUE GREEN DRY RUN", s.Apply(dry_run=True, blue_green=True)),
        ("VERIFY", s.Verify((), None, True)),
        ("VERIFY WITHOUT SOURCE", s.Verify((), None, False)),
        (
            "VERIFY dwd.orders, dws.user_hour, dwd.orders",
            s.Verify(("dwd.orders", "dws.user_hour"), None, True),
        ),
        (
            "VERIFY dwd.orders PARTITION (logdate BETWEEN '2024010100' AND '2024010123') WITHOUT SOURCE",
            s.Verify(("dwd.orders",), DAY, False),
        ),
        ("VERIFY REPAIR", s.Verify((), None, True, repair=True)),
        (
            "VERIFY dwd.orders PARTITION (logdate = 'x') WITHOUT SOURCE REPAIR",
            s.Verify(("dwd.orders",), LabelRange("x", "x"), False, repair=True),
        ),
        ("VERIFY PARTITION (logdate = 'x')", s.Verify((), LabelRange("x", "x"), True)),
        ("CHECK stg.users", s.Check("stg.users", None)),
        ("CHECK dwd.orders PARTITION (logdate = 'x')", s.Check("dwd.orders", LabelRange("x", "x"))),
        ("LOAD SOURCE shop", s.LoadSource("shop")),
        ("CHANGES dwd.orders", s.Changes("dwd.orders")),
        ("CHANGES dwd.orders FROM SNAPSHOT", s.Changes("dwd.orders", "SNAPSHOT")),
        ("CHANGES dwd.orders READER 'a-1.b'", s.Changes("dwd.orders", None, "a-1.b")),
        ("SHOW READERS", s.ShowReaders(None)),
        ("show workflows;", s.ShowWorkflows()),
        ("SHOW COSTS", s.ShowCosts(24)),
        ("show costs last 2 hours", s.ShowCosts(2)),
        ("ALTER MATERIALIZED TABLE dws.user_hour REFRESH NEW", s.RefreshNew("dws.user_hour")),
        ("alter materialized table stg.users refresh new turn 'a-1';", s.RefreshNew("stg.users", "a-1")),
        ("show readers dwd.orders;", s.ShowReaders("dwd.orders")),
        ("DROP READER 'a' ON dwd.orders", s.DropReader("a", "dwd.orders")),
        ("CHANGES dwd.orders FROM VERSION 12", s.Changes("dwd.orders", 12)),
    ],
)
def test_statement(sql: str, expected: s.ParsedStatement) -> None:
    assert parse(sql, TABLES) == expected


@pytest.mark.parametrize(
    ("sql", "where", "message", "hint"),
    [
        ("", (1, 1), "is empty", ""),
        (" ; ", (1, 1), "is empty", ""),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND VERSION 1",
            (1, 43),
            "expected `TO`, found `VERSION`",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND TO VERSION -1",
            (1, 54),
            "expected a changelog version",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND TO TIMESTAMP 'yesterday'",
            (1, 56),
            "`yesterday` is no time",
            "write '2026-11-22 19:30:00'",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users REWIND TO TIMESTAMP '2026-11-22'",
            (1, 56),
            "is a day and no time",
            "in UTC",
        ),
        ("ALTER MATERIALIZED TABLE stg.users ERASE (17)", (1, 42), "expected `KEY`, found", ""),
        ("ALTER MATERIALIZED TABLE stg.users ERASE KEY ()", (1, 47), "expected a key column", ""),
        ("ALTER MATERIALIZED TABLE stg.users ERASE KEY (id)", (1, 49), "expected `=`", ""),
        ("SELEC 1", (1, 1), "`SELEC` begins no statement", "did you mean `SELECT`"),
        ("\n\n -- hi\n  VERFY", (4, 3), "`VERFY` begins no statement", "did you mean `VERIFY`"),
        ("SHOW MATERIALISED TABLES", (1, 6), "expected `MATERIALIZED`", "did you mean `MATERIALIZED`"),
        ("SHOW MATERIALIZED", (1, 18), "expected `TABLES`, found the end", ""),
        ("SHOW MATERIALIZED TABLES now", (1, 26), "expected the end of the statement, found `now`", ""),
        ("DESCRIBE MATERIALIZED TABLE user_hour", (1, 29), "no table `user_hour`", "`dws.user_hour`"),
        ("EXPLAIN MATERIALIZED TABLE\n  dws.user_our", (2, 3), "no table `dws.user_our`", "`dws.user_hour`"),
        ("ALTER MATERIALIZED TABLE dws.user_hour SUSPENDED", (1, 40), "expected", "did you mean `SUSPEND`"),
        ("ALTER MATERIALIZED TABLE dws.user_hour", (1, 39), "found the end of the statement", ""),
        ("ALTER MATERIALIZED TABLE dws.user_hour REFRESH", (1, 47), "`PARTITION`", "logdate BETWEEN"),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour\nREFRESH PARTITION (logdate = 2024010100)",
            (2, 30),
            "expected a partition label in quotes, found `2024010100`",
            "write it in quotes: '2024010100'",
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION (dt = 'x')",
            (1, 59),
            "`dws.user_hour` is partitioned by `logdate`, not by `dt`",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION (logdate > 'x')",
            (1, 67),
            "expected `=` or `BETWEEN`, found `>`",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION (logdate = 'x'",
            (1, 72),
            r"expected `\)`, found the end",
            "",
        ),
        ("CHECK stg.users PARTITION (logdate = 'x')", (1, 17), "`stg.users` has no partitions", ""),
        ("ALTER MATERIALIZED TABLE stg.users REFRESH CASCADE DRY", (1, 55), "expected `RUN`", ""),
        ("ALTER MATERIALIZED TABLE stg.users REFRESH DRY RUN", (1, 44), "expected the end", ""),
        ("VERIFY REPAIR WITHOUT SOURCE", (1, 15), "expected the end of the statement, found `WITHOUT`", ""),
        ("VERIFY dwd.orders,", (1, 19), "expected a table name", ""),
        ("VERIFY PARTITION (dt = 'x')", (1, 19), "no table is partitioned by `dt`", "`logdate`"),
        ("CHANGES dwd.orders FROM VERSION x", (1, 33), "expected a changelog version, found `x`", ""),
        ("CHANGES dwd.orders FROM VERSION -1", (1, 33), "expected a changelog version, found `-`", ""),
        ("CHANGES dwd.orders READER 'a b'", (1, 27), "`a b` is no name of a reader", "letters, digits"),
        ("CHECK dwd.orders; CHECK dwd.orders", (1, 17), "more than one statement", "one by one"),
        ("SHOW 'MATERIALIZED TABLES", (1, 1), "cannot be read", "not closed"),
        (
            "ALTER MATERIALIZED TABLE dws.user_hour SET IMMUTABLE WHERE (dt < 'x')",
            (1, 61),
            "`dws.user_hour` is partitioned by `logdate`, not by `dt`",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users SET IMMUTABLE WHERE (logdate < 'x')",
            (1, 50),
            "`stg.users` has no partitions",
            "",
        ),
        ("CREATE TABLE dws.x AS SELECT 1", (1, 8), "expected `MATERIALIZED`", ""),
        ("CREATE OR REPLACE MATERIALIZED TABLE x AS SELECT 1", (1, 11), "expected `ALTER`", ""),
        ("DROP MATERIALIZED TABLE dws.user_our", (1, 25), "no table `dws.user_our`", "dws.user_hour"),
        ("DROP MATERIALIZED TABLE dws.user_hour CASCADE", (1, 39), "expected the end", ""),
        ("APPLY BLUE", (1, 11), "expected `GREEN`", ""),
        ("APPLY RUN", (1, 7), "expected the end of the statement, found `RUN`", ""),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNES = DOWNSTREAM",
            (1, 40),
            "`FRESHNESS` or",
            "FRESHNESS",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = 10",
            (1, 52),
            "expected `INTERVAL` or `DOWNSTR",
            "",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = INTERVAL 10 SECOND",
            (1, 61),
            "expected the interval's number in quotes",
            "'10'",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = INTERVAL '0' DAY",
            (1, 61),
            "a freshness of zero cannot be met",
            "INTERVAL '1' SECOND",
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = INTERVAL '1.5' DAY",
            (1, 61),
            "`1.5` is not a positive whole number",
            "",
        ),
        ("ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = INTERVAL '1' WEEK", (1, 65), "`DAY`", ""),
        (
            "ALTER MATERIALIZED TABLE stg.users SET REFRESH_MODE = STREAMING",
            (1, 55),
            "expected `CONTINUOUS` or `INCREMENTAL` or `FULL`",
            "",
        ),
        ("ALTER MATERIALIZED TABLE stg.users RESET", (1, 41), "expected `FRESHNESS` or `REFRESH_MODE`", ""),
        ("ALTER MATERIALIZED TABLE dws.user_hour AS", (1, 42), "expected a query", ""),
        ("INSERT INTO dws.user_hour VALUES (1)", (1, 1), "INSERT is refused", "layers/"),
    ],
)
def test_refused_with_its_position(sql: str, where: tuple[int, int], message: str, hint: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        parse(sql, TABLES)
    assert (caught.value.line, caught.value.column) == where
    assert hint in caught.value.hint
    assert str(caught.value).startswith(f"{where[0]}:{where[1]}: ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT * FROM dws.user_hour",
        "select u.* from DWS.USER_HOUR as u join `stg`.`users` on true where logdate >= '2024'",
        "WITH a AS (SELECT * FROM dwd.orders), b AS (SELECT * FROM a) SELECT * FROM b, A",
        "SELECT * FROM (SELECT id FROM stg.users UNION ALL SELECT id FROM stg.orders) x LIMIT 3",
        "SELECT /*+ BROADCAST(u) */ id FROM stg.users u",
        "SELECT x FROM dwd.orders LATERAL VIEW explode(sequence(1, 3)) e AS x",
        "SELECT * FROM range(10)",
        "SELECT transform(array(1), x -> x + 1)",
        "SELECT 'it''s; java_method' AS a, r'\\d' AS b, \"q\" AS c",
        "SELECT count(*) OVER (PARTITION BY id ORDER BY logdate) FROM dwd.orders",
    ],
)
def test_select_is_passed_on_as_it_is(sql: str) -> None:
    assert parse(f"{sql};", TABLES) == s.Select(sql)


@pytest.mark.parametrize(
    ("sql", "where", "message"),
    [
        ("SELECT 1; SELECT 2", (1, 9), "more than one statement"),
        (
            "SELECT *\nFROM dws.user_hou",
            (2, 6),
            "no table `dws.user_hou`\n  hint: did you mean `dws.user_hour`",
        ),
        ("SELECT * FROM shop.public.orders", (1, 15), "no table `shop.public.orders`"),
        ("SELECT * FROM `dws.user_hour`", (1, 15), "no table"),
        ("SELECT * FROM dws.`user_hour$files`", (1, 15), r"no table `dws.user_hour\$files`"),
        ("SELECT * FROM delta.`/etc/x`", (1, 15), "is a path, not a table"),
        ("SELECT * FROM csv.`s3://bucket/x`", (1, 15), "is a path, not a table"),
        ("SELECT (SELECT max(a) FROM parquet.`/x`)", (1, 28), "is a path"),
        ("SELECT id FROM stg.users WHERE EXISTS (SELECT 1 FROM text.`/x`)", (1, 54), "is a path"),
        ("SELECT * FROM a JOIN (WITH a AS (SELECT 1) SELECT * FROM a)", (1, 15), "no table `a`"),
        ("SELECT * FROM read_files('x')", (1, 15), "table function `read_files`"),
        ("SELECT * FROM table_changes_by_path('/x', 0)", (1, 15), "table function"),
        ("SELECT java_method('java.lang.System', 'exit', 0)", (1, 8), "`java_method` runs Java code"),
        ("SELECT 1,\n  Reflect('a', 'b')", (2, 3), "`reflect` runs Java code"),
        ("SELECT `try_reflect`('a', 'b')", (1, 8), "`try_reflect` runs Java code"),
        ("SELECT id FROM stg.users WHERE java_method('a', 'b') = 1", (1, 32), "Java code"),
        ("SELECT * FROM stg.users LATERAL VIEW java_method('a') x", (1, 38), "Java code"),
        ("SELECT TRANSFORM(id) USING 'cat' FROM stg.users", (1, 18), "runs a program"),
        ("WITH a AS (SELECT 1) INSERT INTO stg.users SELECT * FROM a", (1, 1), "one SELECT"),
        ("SELECT 1 INTO x", (1, 15), "must not write"),
        ("SELECT '${env:HOME}'", (1, 9), "only in layer files"),
        ("SELECT * FROM dwd.orders WHERE logdate = ${start_date}", (1, 42), "only in layer files"),
        ("SELECT :a", (1, 1), "takes no parameters"),
        ("SELECT * FROM stg.users TIMESTAMP AS OF now()", (1, 15), "is named by a literal"),
        ("SELECT * FROM delta.`/x` VERSION AS OF 3", (1, 15), "is a path, not a table"),
        ("SELECT sum( FROM stg.users", (1, 22), "cannot be read"),
        ("SELECT *\nFROM stg.users WHERE (1", (2, 23), "cannot be read"),
        ("SELECT 'abc", (1, 1), "cannot be read"),
        ("FROM stg.users SELECT id", (1, 1), "begins no statement"),
        ("VALUES (1)", (1, 1), "begins no statement"),
    ],
)
def test_select_refused(sql: str, where: tuple[int, int], message: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        parse(sql, TABLES)
    assert (caught.value.line, caught.value.column) == where


def test_code_in_a_comment_of_one_parser_never_reaches_the_other() -> None:
    # To Spark the first comment goes on over the line end, so to it the `/*` opens nothing.
    sql = "SELECT 1 -- \\\n/*\n, java_method('java.lang.System', 'exit', 0) -- */\n AS a"
    parsed = parse(sql, TABLES)
    assert isinstance(parsed, s.Select) and parsed.sql.split() == ["SELECT", "1", "AS", "a"]


def test_positions_do_not_move_with_comments() -> None:
    with pytest.raises(StatementError) as caught:
        parse("-- one\nSELECT /* two\n */ * FROM nowhere.t", TABLES)
    assert (caught.value.line, caught.value.column) == (3, 12)


@pytest.mark.parametrize(
    "sql", ["VERIFY dws.bills", "SELECT 1 FROM dws.bills", f"SELECT 1 FROM dws.`bills{QUARANTINE}`"]
)
def test_a_table_that_another_server_keeps_is_said_to_be_its(sql: str) -> None:
    told = "`dws.bills` comes of `billing`, which another server serves"
    with pytest.raises(StatementError, match=told):
        parse(sql, TABLES, {"dws.bills": told})
