"""The query of a layer file: its upstreams by position, and what it may not hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import PARTITIONED, load_query
from sqlglot import exp

from headrace.errors import SpecError
from headrace.spec import SourceTable, TableName


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM dwd.orders", [("dwd.orders", "orders", "dwd.orders")]),
        ("SELECT a FROM `dwd`.`orders` AS o", [("dwd.orders", "o", "`dwd`.`orders`")]),
        ("SELECT a FROM DWD . Orders", [("dwd.orders", "Orders", "DWD . Orders")]),
        (
            "SELECT x.a FROM dwd.o x JOIN dwd.o y ON x.a = y.a, stg.u",
            [("dwd.o", "x", "dwd.o"), ("dwd.o", "y", "dwd.o"), ("stg.u", "u", "stg.u")],
        ),
        # a name in a string, a comment or a quoted name is none
        ("SELECT 'dwd.x' AS a, \"dwd.y\" AS `dwd.z` -- dwd.w\nFROM /* dwd.v */ dwd.o",
         [("dwd.o", "o", "dwd.o")]),
        # common table expressions: visible after they are declared, in the query they belong to
        ("WITH o AS (SELECT a FROM dwd.o) SELECT a FROM o", [("dwd.o", "o", "dwd.o")]),
        ("WITH o AS (SELECT a FROM dwd.o), p AS (SELECT a FROM O) SELECT a FROM p",
         [("dwd.o", "o", "dwd.o")]),
        ("SELECT a FROM (WITH q AS (SELECT a FROM dwd.o) SELECT a FROM q) x", [("dwd.o", "o", "dwd.o")]),
        ("WITH o AS (SELECT a FROM dwd.o) SELECT a FROM dwd.o", [("dwd.o", "o", "dwd.o")] * 2),
        (
            "WITH RECURSIVE r AS (SELECT a FROM dwd.o UNION ALL SELECT a + 1 FROM r) SELECT a FROM r",
            [("dwd.o", "o", "dwd.o")],
        ),
        # everywhere a query may stand
        (
            "SELECT a, (SELECT MAX(b) FROM dwd.u) AS m FROM dwd.o WHERE a IN (SELECT a FROM dwd.p)"
            " AND EXISTS (SELECT 1 FROM dwd.q) UNION ALL SELECT a, 1 FROM dwd.r",
            [(f"dwd.{t}", t, f"dwd.{t}") for t in "uopqr"],
        ),
        ("SELECT a FROM dwd.o, LATERAL (SELECT b FROM dwd.u WHERE u.a = o.a)",
         [("dwd.o", "o", "dwd.o"), ("dwd.u", "u", "dwd.u")]),
        ("FROM dwd.o |> WHERE a > 1 |> SELECT a", [("dwd.o", "o", "dwd.o")]),
        ("SELECT /*+ BROADCAST(u) */ o.a FROM dwd.o o JOIN dwd.u u ON o.a = u.a",
         [("dwd.o", "o", "dwd.o"), ("dwd.u", "u", "dwd.u")]),
        ("SELECT '😀é' AS a FROM dwd.o", [("dwd.o", "o", "dwd.o")]),
        ("SELECT id AS a FROM range(10), dwd.o", [("dwd.o", "o", "dwd.o")]),
    ],
)  # fmt: skip
def test_references(tmp_path: Path, query: str, expected: list[tuple[str, str, str]]) -> None:
    spec = load_query(tmp_path, query)
    found = [(str(r.upstream), r.alias, spec.query[r.start : r.end]) for r in spec.references]
    assert found == expected
    for r in spec.references:
        lines = spec.path.read_text().split("\n")
        assert lines[r.location.line - 1][r.location.column - 1 :].startswith(spec.query[r.start : r.end])


def test_a_stg_table_reads_its_source(tmp_path: Path) -> None:
    spec = load_query(
        tmp_path, "SELECT *, upper(b) AS c FROM shop.public.orders WHERE b > 1", name="stg.orders"
    )
    assert spec.source == SourceTable("shop", "public", "orders")
    assert spec.upstreams == (spec.source,)


def test_upstreams_are_distinct_and_in_order(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT o.a FROM dwd.o JOIN dwd.u USING (a) JOIN dwd.o p USING (a)")
    assert spec.upstreams == (TableName("dwd", "o"), TableName("dwd", "u"))
    assert spec.source is None


def test_the_parsed_query_keeps_positions(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT\n  o.a, now() AS b\nFROM dwd.o")
    for identifier in spec.query_ast.find_all(exp.Identifier):
        at = identifier.meta["start"]
        assert spec.query[at : identifier.meta["end"] + 1] == identifier.name
        located = spec.locate(at)
        assert spec.path.read_text().split("\n")[located.line - 1][located.column - 1] == identifier.name[0]


# The query begins on line 4 of the file.
REFUSED = [
    # syntax
    ("SELECT a FRM dwd.o", "4:14", "syntax error near `dwd`"),
    ("SELECT a\nFROM dwd.o\nWHERE", "6:1", "syntax error near `WHERE`"),
    ("SELECT a FROM dwd.o WHERE (a = 1", "4:32", "syntax error near `1`"),
    ("SELECT a, FROM dwd.o WHERE a = = 1", "4:32", "syntax error near `=`"),
    # something else than a query
    ("INSERT INTO dwd.x SELECT a FROM dwd.o", "4:1", "a layer file holds no INSERT"),
    ("DELETE FROM dwd.o", "4:1", "a layer file holds no DELETE"),
    ("MERGE INTO dwd.x USING dwd.o ON 1 = 1", "4:1", "a layer file holds no MERGE"),
    ("SET spark.x = 1", "4:1", "a layer file holds no SET"),
    ("EXPLAIN SELECT a FROM dwd.o", "4:1", "AS is not followed by a query"),
    ("WITH x AS (SELECT a FROM dwd.o) INSERT INTO dwd.y SELECT a FROM x", "4:1", "not followed by a query"),
    ("VALUES (1)", "4:1", "AS is not followed by a query"),
    ("SELECT a INTO dwd.x FROM dwd.o", "4:8", "SELECT … INTO"),
    ("SELECT 1 AS a", "4:1", "the query reads no table"),
    # other inputs than upstreams
    ("SELECT a FROM delta.`/data/x`", "4:15", "delta.`/data/x` reads files"),
    ("SELECT a FROM parquet.`x`", "4:15", "parquet.`x` reads files"),
    ("SELECT a FROM dwd.o JOIN\n`/data/x` USING (a)", "5:1", "`/data/x` reads files"),
    ("SELECT a FROM read_files('/data')", "4:15", "`read_files(…)` is no table function"),
    ("SELECT a FROM IDENTIFIER('dwd.o')", "4:15", "`IDENTIFIER(…)` is no table function"),
    ("SELECT a FROM dwd.o VERSION AS OF 3", "4:15", "`o` is read with VERSION"),
    ("SELECT a FROM dwd.o TIMESTAMP AS OF '2024-01-01'", "4:15", "`o` is read with VERSION"),
    ("SELECT a FROM dwd.o TABLESAMPLE (10 PERCENT)", "4:15", "a sample is not the same rows twice"),
    ("SELECT /*+ OPTIONS('a' = 'b') */ a FROM dwd.o", "4:12", "options of a read"),
    ("SELECT a FROM dwd.o /*+ OPTIONS('a' = 'b') */ o", "4:21", "a hint stands only after SELECT"),
    # upstreams
    ("SELECT a FROM shop.public.o", "4:15", "a dws table reads `shop.public.o`"),
    ("SELECT a FROM ods.o", "4:15", "`ods` is no layer"),
    ("SELECT a\nFROM orders", "5:6", "`orders` names no layer\n  hint: write layer.table, e.g. dwd.orders"),
    ("SELECT a FROM (WITH q AS (SELECT a FROM dwd.o) SELECT a FROM q) JOIN q USING (a)", "4:70", "`q` na"),
    ("WITH p AS (SELECT a FROM q), q AS (SELECT a FROM dwd.o) SELECT a FROM p", "4:26", "`q` names no layer"),
    ("WITH o AS (SELECT a FROM o) SELECT a FROM o, dwd.x", "4:26", "`o` names no layer"),
    # parameters
    ("SELECT a FROM dwd.o WHERE a > ${begin_date}", "4:31", "${begin_date} is no parameter"),
    ("SELECT a FROM dwd.o WHERE a > ${ start_date }", "4:31", "is no parameter"),
    ("SELECT a FROM dwd.o WHERE a > @start_date", "4:31", "@start_date is no parameter"),
    ("SELECT a FROM dwd.o WHERE ':start' < a AND a > :start", "4:48", "`:start` is no parameter"),
    ("SELECT a FROM dwd.o WHERE a > ?", "4:31", "`?` is no parameter"),
    ("SELECT a FROM dwd.o WHERE a > '${start_date}'", "4:31", "a parameter inside quotes is plain text"),
    ("SELECT a FROM dwd.o WHERE a >= ${start_date}", "4:32", "${start_date} is used, but not ${end_date}"),
    ("SELECT a FROM dwd.o WHERE a <= ${end_date}", "4:32", "${end_date} is used, but not ${start_date}"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "position", "message"), REFUSED)
def test_refused_with_file_line_and_column(tmp_path: Path, query: str, position: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_query(tmp_path, query)
    path = tmp_path / "layers" / "dws" / "t.sql"
    assert str(refused.value).startswith(f"{path}:{position}: "), str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM orders", "`orders` is no source table"),
        ("SELECT * FROM public.orders", "`public.orders` is no source table"),
        ("SELECT * FROM dwd.orders", "`dwd.orders` is no source table"),
        ("SELECT * FROM shop.public.o JOIN shop.public.u USING (a)", "a stg table reads one source table"),
        ("SELECT a FROM shop.public.o UNION ALL SELECT a FROM shop.public.o", "reads one source table"),
        ("SELECT a, COUNT(*) AS n FROM shop.public.o GROUP BY a", "no place for GROUP BY"),
        ("SELECT DISTINCT a FROM shop.public.o", "no place for DISTINCT"),
        ("SELECT a FROM shop.public.o LIMIT 1", "no place for LIMIT"),
        ("SELECT MAX(a) AS a FROM shop.public.o", "no place for an aggregate"),
        ("SELECT a, ROW_NUMBER() OVER (ORDER BY a) AS n FROM shop.public.o", "no place for a window"),
        ("SELECT a, EXPLODE(b) AS n FROM shop.public.o", "no place for a generator"),
        ("SELECT a, n FROM shop.public.o LATERAL VIEW EXPLODE(b) x AS n", "no place for"),
        ("WITH o AS (SELECT * FROM shop.public.o) SELECT * FROM o", "no place for a common table"),
    ],
)
def test_stg_is_one_row_per_source_row(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_query(tmp_path, query, name="stg.o")
    assert f"{tmp_path / 'layers' / 'stg' / 'o.sql'}:4:" in str(refused.value)
    assert message in str(refused.value)


def test_both_parameters_in_a_partitioned_table(tmp_path: Path) -> None:
    query = "SELECT a FROM dwd.o WHERE d >= ${start_date} AND d<=${end_date} AND 'x' <> '$' -- ${nothing}"
    assert load_query(tmp_path, query, clauses=PARTITIONED).query.endswith("'$'")
