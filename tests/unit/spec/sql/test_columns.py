"""Columns are checked before anything runs; what may be valid Spark is let through."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import SHOP_COLUMNS, load_queries, load_query, write

from headrace.errors import SpecError
from headrace.spec import TableName, load_table
from headrace.spec.project import ProjectErrors
from headrace.spec.sql.columns import check_columns, columns_read, lacking_columns, table_columns

UPSTREAMS = {
    "dwd.o": ("a", "b", "s", "m", "arr"),
    "dwd.u": ("a", "c"),
    "dwd.w": ("b", "c", "a"),
    "dwd.unknown": None,
}

VALID = [
    ("SELECT * FROM dwd.o", "a b s m arr"),
    ("SELECT *, b + 1 AS x FROM dwd.o", "a b s m arr x"),
    ("SELECT A, o.B AS B FROM DWD.O", "A B"),
    ("SELECT u.*, b FROM dwd.o JOIN dwd.u ON o.a = u.a", "a c b"),
    ("SELECT * FROM dwd.o JOIN dwd.u USING (a)", "a b s m arr c"),
    ("SELECT * FROM dwd.u JOIN dwd.o USING (a)", "a c b s m arr"),
    ("SELECT * FROM dwd.o JOIN dwd.w USING (b, a)", "b a s m arr c"),
    ("SELECT * FROM dwd.o LEFT SEMI JOIN dwd.u ON o.a = u.a", "a b s m arr"),
    ("SELECT * EXCEPT (b, S), upper(b) AS b FROM dwd.o", "a m arr b"),
    ("SELECT CAST(a AS INT), (b) FROM dwd.o", "a b"),
    # lateral aliases, and aliases in GROUP BY, HAVING and ORDER BY
    ("SELECT a, b + 1 AS x, x * 2 AS y FROM dwd.o", "a x y"),
    ("SELECT a AS k, a, COUNT(*) AS n FROM dwd.o GROUP BY k, a HAVING n > 1 ORDER BY n", "k a n"),
    # fields of structs, qualified or not
    ("SELECT a, s.f, o.s.g, s.h.i AS j, dwd.o.b FROM dwd.o", "a f g j b"),
    ("SELECT a, arr[0].z AS q, m['x'] AS y, struct(a, b AS w).w AS z FROM dwd.o", "a q y z"),
    # common table expressions, subqueries, correlation
    ("WITH q AS (SELECT * FROM dwd.o), r (x, y) AS (SELECT a, b FROM q) SELECT x AS a, q.b, y FROM r, q",
     "a b y"),
    ("SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM dwd.o GROUP BY a) q", "a n"),
    ("SELECT a, `count(1)` AS n FROM (SELECT a, COUNT(1) FROM dwd.o GROUP BY a)", "a n"),
    ("SELECT a FROM dwd.o WHERE EXISTS (SELECT 1 FROM dwd.u WHERE u.a = o.a AND b > 1)", "a"),
    ("SELECT a, (SELECT MAX(c) FROM dwd.u WHERE u.a = o.a) AS m FROM dwd.o", "a m"),
    ("SELECT o.a, z.n FROM dwd.o, LATERAL (SELECT COUNT(*) AS n FROM dwd.u WHERE u.a = o.a) z", "a n"),
    ("SELECT o.a, c FROM (dwd.o JOIN dwd.u ON o.a = u.a)", "a c"),
    ("SELECT a FROM dwd.o UNION ALL SELECT c FROM dwd.u", "a"),
    ("WITH RECURSIVE r (n) AS (SELECT a FROM dwd.o UNION ALL SELECT n + 1 FROM r) SELECT n AS a FROM r", "a"),
    # generators and lambdas
    ("SELECT a, k, v.w FROM dwd.o LATERAL VIEW EXPLODE(m) v AS k, w", "a k w"),
    ("SELECT a, col FROM dwd.o LATERAL VIEW EXPLODE(arr) v", "a col"),
    ("SELECT a, v.k FROM dwd.o, LATERAL EXPLODE(arr) AS v (k)", "a k"),
    ("SELECT a, transform(arr, x -> transform(x, y -> x + y + b)) AS t FROM dwd.o", "a t"),
    ("SELECT a, x FROM dwd.o JOIN VALUES (1, 2) AS v (x, y) ON v.y = o.a", "a x"),
    ("SELECT a, col2 FROM dwd.o, (VALUES (1, 2))", "a col2"),
    # words that are no columns
    ("SELECT a, user AS u, current_date AS c, localtimestamp AS l FROM dwd.o GROUP BY ALL ORDER BY ALL",
     "a u c l"),
    ("SELECT a, timestampadd(HOUR, 1, b) AS t, extract(YEAR FROM b) AS y, INTERVAL 1 DAY AS i FROM dwd.o",
     "a t y i"),
    ("SELECT a, SUM(b) OVER w AS t FROM dwd.o WINDOW w AS (PARTITION BY a ORDER BY s.f)", "a t"),
    # what only Spark can tell
    ("SELECT * FROM dwd.unknown", None),
    ("SELECT a, anything, unknown.other, x.y FROM dwd.unknown", "a anything other y"),
    ("SELECT * FROM (SELECT a, b FROM dwd.o) PIVOT (SUM(b) FOR a IN (1, 2))", None),
    ("SELECT * FROM dwd.o NATURAL JOIN dwd.u", None),
    ("SELECT a, c FROM dwd.o NATURAL JOIN dwd.u", "a c"),
    ("SELECT a, s.* FROM dwd.o", None),
    ("SELECT a, INLINE(arr) FROM dwd.o", None),
    ("FROM dwd.o |> AGGREGATE COUNT(*) AS n GROUP BY a", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), VALID)
def test_output_columns(tmp_path: Path, query: str, expected: str | None) -> None:
    columns = table_columns(load_query(tmp_path, query), UPSTREAMS)
    assert columns == (None if expected is None else tuple(expected.split()))


# The query begins on line 4 of the file.
REFUSED = [
    ("SELECT a, current_catalog AS c FROM dwd.o", "4:11", "there is no column `current_catalog`"),
    ("SELECT a, bb FROM dwd.o", "4:11", "there is no column `bb`\n  hint: did you mean `b`"),
    ("SELECT a,\n  o.bb FROM dwd.o", "5:3", "there is no column `o.bb`\n  hint: did you mean `b`"),
    ("SELECT a, u.b FROM dwd.o JOIN dwd.u ON o.a = u.a", "4:11", "there is no column `u.b`"),
    ("SELECT x.a FROM dwd.o", "4:8", "there is no column `x.a`"),
    ("SELECT o.a FROM dwd.o oo", "4:8", "there is no column `o.a`\n  hint: did you mean `oo`"),
    ("SELECT a FROM dwd.o WHERE z > 1", "4:27", "there is no column `z`"),
    ("SELECT a, b AS z FROM dwd.o WHERE z > 1", "4:35", "there is no column `z`"),
    ("SELECT a FROM dwd.o JOIN dwd.u ON o.a = u.z", "4:41", "there is no column `u.z`"),
    ("SELECT a, MAX(z) AS z FROM dwd.o GROUP BY a", "4:15", "there is no column `z`"),
    ("SELECT a, y + 1 AS x, b AS y FROM dwd.o", "4:11", "there is no column `y`"),
    ("SELECT a FROM dwd.o GROUP BY z", "4:30", "there is no column `z`"),
    ("SELECT a FROM dwd.o ORDER BY z", "4:30", "there is no column `z`"),
    ("SELECT a, SUM(b) OVER (PARTITION BY z) AS t FROM dwd.o", "4:37", "there is no column `z`"),
    ("WITH q AS (SELECT a FROM dwd.o) SELECT b FROM q", "4:40", "there is no column `b`"),
    ("WITH q AS (SELECT a FROM dwd.o), r AS (SELECT b FROM q) SELECT 1 AS a FROM r", "4:47", "no column `b`"),
    ("WITH q AS (SELECT z FROM dwd.o) SELECT 1 AS a FROM q", "4:19", "there is no column `z`"),
    ("SELECT a, b FROM (SELECT a FROM dwd.o)", "4:11", "there is no column `b`"),
    ("SELECT a FROM dwd.o WHERE a IN (SELECT z FROM dwd.u)", "4:40", "there is no column `z`"),
    ("SELECT a, transform(arr, x -> x + z) AS t FROM dwd.o", "4:35", "there is no column `z`"),
    ("SELECT a FROM dwd.o UNION ALL SELECT z FROM dwd.u", "4:38", "there is no column `z`"),
    ("SELECT a, CASE WHEN z THEN 1 END AS x FROM dwd.o", "4:21", "there is no column `z`"),
    ("SELECT o.a, z.* FROM dwd.o", "4:13", "there is no column `z.*`"),
    ("SELECT a, COUNT(*) FROM dwd.o GROUP BY a", "4:1", "output column 2 of dws.t has no name"),
    ("SELECT *, b FROM dwd.o", "4:1", "dws.t returns column `b` more than once"),
    ("SELECT o.*, u.* FROM dwd.o JOIN dwd.u ON o.a = u.a", "4:1", "returns column `a` more than once"),
    ("SELECT b FROM dwd.o", "1:34", "key column `a` is not returned by the query"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "position", "message"), REFUSED)
def test_refused_with_file_line_and_column(tmp_path: Path, query: str, position: str, message: str) -> None:
    spec = load_query(tmp_path, query)
    with pytest.raises(SpecError) as refused:
        table_columns(spec, UPSTREAMS)
    assert str(refused.value).startswith(f"{spec.path}:{position}: "), str(refused.value)
    assert message in str(refused.value)


def test_partition_and_constraint_columns_are_returned(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT a FROM dwd.o", clauses="PARTITIONED BY (day)\n")
    with pytest.raises(SpecError, match=r"t\.sql:2:16: partition column `day` is not returned"):
        table_columns(spec, UPSTREAMS)
    spec = load_query(tmp_path, "SELECT a, s FROM dwd.o")
    text = spec.path.read_text()
    for constraint, position in (
        ("a > 0 AND\n  bb > 0", "4:3"),
        ("t.a > 0 AND s.f > 0 AND current_date > s.g", None),
    ):
        declared = f"(a),\nCONSTRAINT c\nEXPECT ({constraint}) ON VIOLATION FAIL)"
        path = write(tmp_path, "dws.t", text.replace("(a))", declared))
        spec = load_table(path)
        if position is None:
            assert table_columns(spec, UPSTREAMS) == ("a", "s")
            continue
        with pytest.raises(
            SpecError, match=rf"t\.sql:{position}: column `bb` of constraint `c` is not returned"
        ):
            table_columns(spec, UPSTREAMS)


def test_columns_flow_through_a_project(tmp_path: Path) -> None:
    project = load_queries(
        tmp_path,
        stg__orders="SELECT *, upper(status) AS big FROM shop.public.orders",
        dwd__orders="SELECT *, order_id AS a FROM stg.orders",
        dws__t="SELECT user_id AS a, COUNT(big) AS n FROM dwd.orders GROUP BY user_id",
    )
    columns = check_columns(project, SHOP_COLUMNS)
    assert columns[TableName("stg", "orders")][-2:] == ("updated_at", "big")
    assert columns[TableName("dwd", "orders")][-1] == "a"
    assert columns[TableName("dws", "t")] == ("a", "n")
    # without the source's columns nothing is known and nothing refused
    assert set(check_columns(project, {}).values()) == {(), ("a", "n")}


def test_all_errors_are_told_and_none_follows_from_another(tmp_path: Path) -> None:
    project = load_queries(
        tmp_path,
        stg__orders="SELECT *, upper(statuss) AS big FROM shop.public.orders",
        stg__users="SELECT * FROM shop.public.users",
        dwd__a="SELECT whatever AS a FROM stg.orders",
        dwd__b="SELECT usr_id AS a FROM stg.users",
    )
    with pytest.raises(ProjectErrors) as refused:
        check_columns(project, SHOP_COLUMNS)
    assert [e.location.path.name for e in refused.value.errors] == ["orders.sql", "b.sql"]


def test_who_names_a_column_that_is_not_there_is_told_and_a_star_is_not(tmp_path: Path) -> None:
    project = load_queries(
        tmp_path,
        stg__orders="SELECT *, 1 AS one FROM shop.public.orders",
        dwd__a="SELECT order_id AS a, status FROM stg.orders",
        dwd__b="SELECT *, order_id AS a FROM stg.orders",
        dws__c="SELECT a, status FROM dwd.a",
        dws__d="SELECT a, status FROM dwd.b",
    )
    source = next(iter(project.sources()))
    without = {source: tuple(c for c in SHOP_COLUMNS[source] if c != "status")}
    lacking = lacking_columns(project, without)
    assert [str(name) for name in lacking] == ["dwd.a", "dws.d"]  # what reads the former has its old rows
    assert "column `status`" in str(lacking[TableName("dwd", "a")])


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (
            "SELECT order_id, upper(Status) AS s FROM dwd.o WHERE amount > 0",
            "order_id status amount",
        ),
        (
            "SELECT o.order_id, count(*) OVER (PARTITION BY o.user_id) AS n FROM dwd.o o",
            "o order_id user_id",
        ),
        ("SELECT *, 1 AS one FROM dwd.o", None),
        ("SELECT o.* FROM dwd.o", None),
    ],
)
def test_what_a_query_takes_of_its_upstream(tmp_path: Path, query: str, names: str | None) -> None:
    found = columns_read(load_query(tmp_path, query))
    assert found == (None if names is None else set(names.split()))
