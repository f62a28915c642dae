"""The DDL around a query: what it means, and where it is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from spec_support import PARTITIONED, declaration, load_query, write

from headrace.errors import SpecError
from headrace.spec import TableName, load_table
from headrace.spec.model import CorrectionPolicy, RefreshMode, RefreshPolicy, Violation

FULL = """-- what this table is for; a quote ' here is nothing
CREATE OR ALTER MATERIALIZED TABLE dws.user_hour ( -- the key
  PRIMARY /* of */ KEY (user_id, `logdate`) NOT ENFORCED,
  CONSTRAINT counted EXPECT (cnt > 0 AND (cnt < 10 OR cnt IN (11, 12))) ON VIOLATION DROP ROW,
  CONSTRAINT named EXPECT (name <> ')') ON VIOLATION FAIL
)
COMMENT 'it''s; AS much as one says'
PARTITIONED BY (logdate)
WITH (
  'partition.fields.logdate.date-formatter' = 'yyyyMMddHH',
  'correction.policy' = 'skip'
)
FRESHNESS = INTERVAL '5' MINUTE
REFRESH_MODE = FULL
REFRESH_POLICY = INCREMENTAL STRICT
AS
-- the query
SELECT user_id, logdate, COUNT(*) AS cnt, 'x' AS name
FROM dwd.orders /* not stg.orders; */
WHERE logdate >= ${start_date} AND logdate <= ${end_date}
GROUP BY user_id, logdate -- the end
;
"""


def test_every_clause_is_read(tmp_path: Path) -> None:
    spec = load_table(write(tmp_path, "dws.user_hour", FULL))
    assert spec.name == TableName("dws", "user_hour")
    assert spec.primary_key == ("user_id", "logdate")
    assert [(c.name, c.expression, c.on_violation) for c in spec.constraints] == [
        ("counted", "cnt > 0 AND (cnt < 10 OR cnt IN (11, 12))", Violation.DROP_ROW),
        ("named", "name <> ')'", Violation.FAIL),
    ]
    assert spec.comment == "it's; AS much as one says"
    assert (spec.partitioned_by, spec.partition_format) == (("logdate",), "yyyyMMddHH")
    assert spec.correction_policy is CorrectionPolicy.SKIP
    assert spec.options[1] == ("correction.policy", "skip")
    assert spec.freshness == timedelta(minutes=5)
    assert spec.refresh_mode is RefreshMode.FULL
    assert spec.refresh_policy is RefreshPolicy.INCREMENTAL_STRICT


def test_the_query_is_kept_to_the_character(tmp_path: Path) -> None:
    spec = load_table(write(tmp_path, "dws.user_hour", FULL))
    start = FULL.index("SELECT user_id")
    assert spec.query == FULL[start : FULL.index(" -- the end")]
    assert (spec.query_line, spec.query_column) == (FULL[:start].count("\n") + 1, 1)
    (reference,) = spec.references
    assert spec.query[reference.start : reference.end] == "dwd.orders"
    assert (reference.location.line, reference.location.column) == (spec.query_line + 1, 6)


def test_a_query_on_the_line_of_as_is_located(tmp_path: Path) -> None:
    text = "CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY (a)) FRESHNESS = DOWNSTREAM AS SELECT a FROM dwd.o"
    spec = load_table(write(tmp_path, "dws.t", text))
    assert spec.freshness is None
    assert spec.references[0].location.column == text.index("dwd.o") + 1
    assert str(spec.locate(spec.query.index("dwd"))) == str(spec.references[0].location)


def test_clauses_may_stand_in_any_order(tmp_path: Path) -> None:
    clauses = FULL[FULL.index("COMMENT") : FULL.index("\nAS\n")]
    starts = [
        clauses.index(c) for c in ("COMMENT", "PARTITIONED", "WITH", "FRESHNESS", "REFRESH_M", "REFRESH_P")
    ]
    pieces = [clauses[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    turned = FULL.replace(clauses, "\n".join(reversed(pieces)))
    path = write(tmp_path, "dws.user_hour", FULL)
    expected = load_table(path)
    path.write_text(turned)
    found = load_table(path)
    assert turned != FULL
    for field in (
        "comment",
        "partitioned_by",
        "partition_format",
        "options",
        "freshness",
        "refresh_mode",
        "query",
    ):
        assert getattr(found, field) == getattr(expected, field), field


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("INTERVAL '1' SECOND", timedelta(seconds=1)),
        ("INTERVAL '90' minutes", timedelta(minutes=90)),
        ("INTERVAL '2' HOUR", timedelta(hours=2)),
        ("INTERVAL '1' DAY", timedelta(days=1)),
        ("DOWNSTREAM", None),
        ("downstream", None),
    ],
)
def test_freshness(tmp_path: Path, written: str, expected: timedelta | None) -> None:
    text = f"create materialized table dws.t (primary key (a)) freshness = {written} as select a from dwd.o"
    assert load_table(write(tmp_path, "dws.t", text)).freshness == expected


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "dws.user_hour", FULL)
    expected = load_table(path)
    path.write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    assert load_table(path) == expected


KEY = "CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY (a))\n"
TAIL = "FRESHNESS = DOWNSTREAM\nAS\nSELECT a FROM dwd.o"


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", "1:1", "the file is empty"),
        ("-- nothing\n", "1:1", "the file is empty"),
        ("SELECT 1", "1:1", "expected `CREATE`, found `SELECT`"),
        ("CREATE TABLE dws.t", "1:8", "expected `MATERIALIZED`, found `TABLE`"),
        ("CREATE OR REPLACE MATERIALIZED TABLE dws.t", "1:11", "expected `ALTER`, found `REPLACE`"),
        ("CREATE MATERIALIZED TABLE t", "1:27", "`t` has 1 part"),
        ("CREATE MATERIALIZED TABLE a.dws.t", "1:27", "`a.dws.t` has 3 parts"),
        ("CREATE MATERIALIZED TABLE ods.t", "1:27", "`ods` is no layer"),
        ("CREATE MATERIALIZED TABLE dws.\n  UserHour", "2:3", "`UserHour` is not a name"),
        ("CREATE MATERIALIZED TABLE dws.`user-hour`", "1:31", "`user-hour` is not a name"),
        ("CREATE MATERIALIZED TABLE dws.`user_hour\n`", "1:31", "is not a name"),
        ("CREATE MATERIALIZED TABLE dws.`../../user_hour`", "1:31", "is not a name"),
        ("CREATE MATERIALIZED TABLE dws." + "a" * 64, "1:31", "is not a name"),
        ("CREATE MATERIALIZED TABLE dws.t (\n  a INT\n)", "2:3", "lists no columns"),
        ("CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY ())", "1:47", "expected a key column, found `)`"),
        ("CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY (a, A))", "1:50", "`A` stands twice"),
        ("CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY (a),\n PRIMARY KEY (b))", "2:2", "declared twice"),
        ("CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY (a)", "1:49", "expected `,` or `)`, found the end"),
        (KEY + "COMMENT 'a'\nCOMMENT 'b'\n" + TAIL, "3:1", "COMMENT is declared twice"),
        (KEY + "COMMENT x\n" + TAIL, "2:9", "expected the comment in single quotes, found `x`"),
        (KEY + "COMMENTS 'x'\n" + TAIL, "2:1", "`COMMENTS` begins no clause\n  hint: did you mean `COMMENT`"),
        (KEY + "AS\nSELECT a FROM dwd.o", "2:1", "dws.t declares no FRESHNESS"),
        (KEY + "FRESHNESS = DOWNSTREAM\nSELECT a FROM dwd.o", "3:1", "expected `AS` before `SELECT`"),
        (KEY + "FRESHNESS = '10' SECOND\n" + "AS SELECT a", "2:13", "an INTERVAL or DOWNSTREAM"),
        (KEY + "FRESHNESS = INTERVAL '0' SECOND\nAS", "2:22", "zero cannot be met"),
        (KEY + "FRESHNESS = INTERVAL '-1' SECOND\nAS", "2:22", "`-1` is not a positive whole number"),
        (KEY + "FRESHNESS = INTERVAL '0.5' SECOND\nAS", "2:22", "`0.5` is not a positive whole number"),
        (KEY + "FRESHNESS = INTERVAL '1' MONTH\nAS", "2:26", "not counted in MONTH"),
        (KEY + "REFRESH_MODE = STREAMING\n" + TAIL, "2:16", "expected one of `CONTINUOUS`"),
        (KEY + "REFRESH_POLICY = STRICT\n" + TAIL, "2:18", "expected one of `AUTO`"),
        (KEY + "PARTITIONED BY (logdate, logdate)\n" + TAIL, "2:17", "named twice"),
        (KEY + "PARTITIONED BY (LogDate)\n" + TAIL, "2:17", "`LogDate` is not a name"),
        (KEY + "WITH ('correction.polici' = 'skip')\n" + TAIL, "2:7", "did you mean `correction.policy`"),
        (
            KEY + "WITH ('correction.policy' = 'never')\n" + TAIL,
            "2:29",
            "write 'skip' or 'propagate' or 'recompute'",
        ),
        (
            KEY + "WITH ('correction.policy' = 'skip',\n'correction.policy' = 'skip')\n" + TAIL,
            "3:1",
            "given twice",
        ),
        (
            KEY + "WITH ('partition.fields.d.date-formatter' = 'yyyy')\n" + TAIL,
            "2:7",
            "`d` is no partition column",
        ),
        (
            KEY + "WITH ('partition.fields.d.date-formatter' = 'YYYY')\nPARTITIONED BY (d)\n" + TAIL,
            "2:45",
            "'YYYY' is no partition format",
        ),
        (
            KEY + "PARTITIONED BY (c, d)\nWITH ('partition.fields.d.date-formatter' = 'yyyy')\n" + TAIL,
            "3:7",
            "only the first",
        ),
        (KEY + TAIL + ";\nSELECT 2", "5:1", "holds one statement"),
        (KEY + "FRESHNESS = DOWNSTREAM\nAS\n;", "4:1", "there is no query after AS"),
        (KEY + "FRESHNESS = DOWNSTREAM\nAS", "3:3", "there is no query after AS"),
        (KEY + "COMMENT 'never closed\n" + TAIL, "2:9", "' is never closed"),
        (KEY + TAIL + "\n/* never closed", "5:1", "a comment is never closed"),
        (KEY.replace("))", "),\nCONSTRAINT c EXPECT ())") + TAIL, "2:21", "the parentheses are empty"),
        (
            KEY.replace("))", "),\nCONSTRAINT c EXPECT (a > ))") + TAIL,
            "2:22",
            "syntax error in constraint `c`",
        ),
        (KEY.replace("))", "),\nCONSTRAINT c EXPECT (a > 0))") + TAIL, "2:28", "expected `ON`, found `)`"),
        (
            KEY.replace("))", "),\nCONSTRAINT c EXPECT (a > 0) ON VIOLATION IGNORE)") + TAIL,
            "2:42",
            "one of `WARN`, `DROP ROW`, `QUARANTINE`, `FAIL`, found `IGNORE`",
        ),
        (
            KEY.replace("))", "),\nCONSTRAINT c EXPECT (SUM(a) > 0) ON VIOLATION FAIL)") + TAIL,
            "2:22",
            "uses an aggregate",
        ),
        (
            KEY.replace("))", "),\nCONSTRAINT c EXPECT (a IN (SELECT 1)) ON VIOLATION FAIL)") + TAIL,
            "2:22",
            "uses a subquery",
        ),
        (
            KEY.replace("))", "),\nCONSTRAINT C EXPECT (a > 0) ON VIOLATION FAIL)") + TAIL,
            "2:12",
            "`C` is not a name",
        ),
    ],
)
def test_refused_with_file_line_and_column(tmp_path: Path, text: str, position: str, message: str) -> None:
    path = write(tmp_path, "dws.t", text)
    with pytest.raises(SpecError) as refused:
        load_table(path)
    assert str(refused.value).startswith(f"{path}:{position}: "), str(refused.value)
    assert message in str(refused.value)


def test_a_derived_table_needs_a_key(tmp_path: Path) -> None:
    path = write(
        tmp_path, "dwd.t", declaration("dwd.t", "SELECT a FROM stg.o").replace(" (PRIMARY KEY (a))", "")
    )
    with pytest.raises(SpecError, match=rf"{path}:1:27: dwd\.t has no PRIMARY KEY"):
        load_table(path)


def test_a_stg_table_has_its_key_from_the_source(tmp_path: Path) -> None:
    assert load_query(tmp_path, "SELECT * FROM shop.public.t", name="stg.t").primary_key == ()
    text = KEY.replace("dws", "stg") + TAIL.replace("dwd.o", "shop.public.o")
    path = write(tmp_path, "stg.t", text)
    with pytest.raises(SpecError, match=rf"{path}:1:34: a stg table declares no key"):
        load_table(path)


@pytest.mark.parametrize("place", ["dwd.t", "dws.other"])
def test_the_file_is_named_after_the_table(tmp_path: Path, place: str) -> None:
    path = write(tmp_path, place, KEY + TAIL)
    with pytest.raises(SpecError, match=rf"{path}:1:27: the file declares dws\.t, but is") as refused:
        load_table(path)
    assert "move it to layers/dws/t.sql" in str(refused.value)


def test_a_limit_of_what_may_be_in_quarantine(tmp_path: Path) -> None:
    limit = "WITH ('quarantine.limit' = '{}')"
    assert load_query(tmp_path, "SELECT a FROM dwd.o", clauses=limit.format(7)).quarantine_limit == 7
    assert load_query(tmp_path, "SELECT a FROM dwd.o").quarantine_limit is None
    with pytest.raises(SpecError, match="'-1' is no number of rows"):
        load_query(tmp_path, "SELECT a FROM dwd.o", clauses=limit.format(-1))


def test_owners_are_those_of_dagster(tmp_path: Path) -> None:
    owners = "WITH ('owners' = '{}')"
    found = load_query(tmp_path, "SELECT a FROM dwd.o", clauses=owners.format("team:sales, ada@shop.example"))
    assert found.owners == ("team:sales", "ada@shop.example")
    assert load_query(tmp_path, "SELECT a FROM dwd.o").owners == ()
    with pytest.raises(SpecError, match=r"'sales' is no owner\n.*team:sales"):
        load_query(tmp_path, "SELECT a FROM dwd.o", clauses=owners.format("sales"))


def test_a_missing_or_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such layer file"):
        load_table(tmp_path / "layers" / "dws" / "t.sql")
    path = write(tmp_path, "dws.t", "")
    path.write_bytes(b"CREATE\n\xff")
    with pytest.raises(SpecError, match=rf"{path}:2:1: is not UTF-8"):
        load_table(path)


def test_a_range_needs_partitions_by_time(tmp_path: Path) -> None:
    query = "SELECT a FROM dwd.o WHERE logdate BETWEEN ${start_date} AND ${end_date}"
    assert load_query(tmp_path, query, clauses=PARTITIONED).partition_column == "logdate"
    with pytest.raises(SpecError, match=r"t\.sql:4:43: a range parameter in a table without partitions"):
        load_query(tmp_path, query)
