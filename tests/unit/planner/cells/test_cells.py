"""Named query shapes, among them the hard ones of TPC-H: their cells, proved on random changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from planner_oracle import Runner, check_affected, check_below
from planner_random import Change, Row
from planner_support import names, plan, write_table

from headrace.engine.rows.cells import TooWide, alike, touched_cells
from headrace.planner import AffectedKeys, cells_below_top
from headrace.planner.sql.extract import extract
from headrace.planner.sql.facts import QueryFacts, Refusal
from headrace.planner.strategies import affected_keys
from headrace.spec.model import TableSpec
from headrace.store.schema import TableSchema

TABLES = {
    "stg.part": names("p_partkey p_brand p_type p_size"),
    "stg.supplier": names("s_suppkey s_nationkey s_acctbal s_comment"),
    "stg.partsupp": names("ps_partkey ps_suppkey ps_availqty ps_supplycost"),
    "stg.customer": names("c_custkey c_name"),
    "stg.orders": names("o_orderkey o_custkey o_totalprice o_orderdate o_orderpriority"),
    "stg.lineitem": names(
        "l_orderkey l_linenumber l_partkey l_suppkey l_quantity l_extendedprice l_commitdate l_receiptdate "
        "l_shipdate"
    ),
    "stg.nation": names("n_nationkey n_name n_regionkey"),
    "stg.region": names("r_regionkey r_name"),
}
WIDTHS = {t: 2 if t in ("stg.partsupp", "stg.lineitem") else 1 for t in TABLES}
KEYS = {t: TABLES[t][: WIDTHS[t]] for t in TABLES}
CASES = yaml.safe_load(Path(__file__).with_name("planner_queries.yml").read_text())
CHANGES = 40


def a_row(chance: random.Random, table: str) -> Row:
    key = [chance.randrange(4) for _ in range(WIDTHS[table])]
    return (*key, *(chance.choice((None, 0, 1, 1, 2, 3)) for _ in TABLES[table][WIDTHS[table] :]))


def a_change(chance: random.Random, tables: list[str]) -> Change:
    """A few inserts, updates and deletes of one of `tables`, or of several at once."""

    def keyed(rows: list[Row], table: str) -> list[Row]:
        return list({r[: WIDTHS[table]]: r for r in rows}.values())

    old = {t: keyed([a_row(chance, t) for _ in range(chance.choice((0, 3, 6, 9)))], t) for t in tables}
    new = dict(old)
    for table in chance.sample(tables, min(len(tables), chance.choice((1, 1, 1, 2, 3)))):
        kept = [r for r in old[table] if chance.random() < 0.8]
        new[table] = keyed([*kept, *(a_row(chance, table) for _ in range(chance.choice((0, 1, 2))))], table)
    return Change(old, new)


def read(
    spec: TableSpec, output: tuple[str, ...], types: dict[str, dict[str, str]] | None = None
) -> QueryFacts:
    upstreams = {u: str(u) for u in spec.upstreams}
    columns = {u: TABLES[n] for u, n in upstreams.items()} | {spec.name: output}
    keys = {u: KEYS[n] for u, n in upstreams.items()} | {spec.name: spec.primary_key}
    known = None if types is None else {u: types[n] for u, n in upstreams.items()}
    return extract(spec, keys, columns, known)


def written(tmp_path: Path, case: dict[str, Any]) -> tuple[TableSpec, tuple[str, ...]]:
    output = names(case["outputs"])
    key = ", ".join(output[: case["key"]]) or output[0]
    return write_table(tmp_path, case["query"], key=key, partition=None), output


def by(leaves: dict[int, str]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    return tuple((reference, names(columns)) for reference, columns in leaves.items())


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


@pytest.mark.parametrize("case", [c for c in CASES if "leaves" in c], ids=lambda case: case["name"])
def test_cells_of_the_output(
    tmp_path: Path, database: duckdb.DuckDBPyConnection, case: dict[str, Any]
) -> None:
    spec, output = written(tmp_path, case)
    strategy = plan(spec, output, columns=TABLES, keys=KEYS, without=("WEIGHTED",)).strategy
    assert isinstance(strategy, AffectedKeys)
    assert strategy.cells.leaves == by(case["leaves"])
    assert strategy.cells.global_leaves == tuple(case.get("whole", ()))
    run, chance = Runner(database, spec, TABLES), random.Random(case["name"])
    changes = [a_change(chance, sorted(set(run.tables))) for _ in range(CHANGES)]
    carried = sum(check_affected(run, strategy, output, change) for change in changes)
    assert carried > CHANGES / 4


@pytest.mark.parametrize("case", [c for c in CASES if "below" in c], ids=lambda case: case["name"])
def test_cells_below_the_topmost_aggregate(
    tmp_path: Path, database: duckdb.DuckDBPyConnection, case: dict[str, Any]
) -> None:
    spec, output = written(tmp_path, case)
    cells = cells_below_top(read(spec, output))
    assert not isinstance(cells, Refusal), cells.reason
    assert cells.leaves == by(case["below"])
    assert "leaves" in case or cells.global_leaves == tuple(case.get("whole", ()))
    run, chance = Runner(database, spec, TABLES), random.Random(case["name"])
    changes = [a_change(chance, sorted(set(run.tables))) for _ in range(CHANGES)]
    carried = sum(check_below(run, cells, case["key"], change) for change in changes)
    assert carried > CHANGES / 4


NOT_IN = "SELECT o_orderkey FROM stg.orders WHERE o_custkey NOT IN (SELECT l_partkey FROM stg.lineitem)"


def test_not_in_runs_the_whole_query_only_where_a_null_comes_or_goes(
    tmp_path: Path, database: duckdb.DuckDBPyConnection
) -> None:
    spec = write_table(tmp_path, NOT_IN, key="o_orderkey", partition=None)
    strategy = plan(spec, ("o_orderkey",), columns=TABLES, keys=KEYS).strategy
    assert isinstance(strategy, AffectedKeys)
    (step,) = strategy.cells.null_fatal
    assert (step.from_columns, step.to_columns) == (("l_partkey",), ("o_custkey",))
    run = Runner(database, spec, TABLES)
    orders: list[Row] = [(1, 7, 0, 0, 0), (2, None, 0, 0, 0), (3, 9, 0, 0, 0)]

    def change(old: list[Row], new: list[Row]) -> Change:
        return Change(
            {"stg.orders": orders, "stg.lineitem": old}, {"stg.orders": orders, "stg.lineitem": new}
        )

    seven, null = (1, 1, 7, *[0] * 6), (1, 2, None, *[0] * 6)
    for old, new in (
        ([], [seven]),
        ([seven], []),
        ([seven, null], [null]),
    ):  # order 2 depends on there being any
        assert check_affected(run, strategy, ("o_orderkey",), change(old, new))
    for old, new in (([seven], [seven, null]), ([null], [])):
        with pytest.raises(TooWide, match="NULL in `l_partkey`"):
            touched_cells(strategy.cells, {1: run.table(1, [*old, *new])}, Empty())


class Empty:
    """Leaves that nobody may ask."""

    def find(self, *_: object) -> Any:
        raise AssertionError

    read = find


BIGINT = {t: dict.fromkeys(columns, "bigint") for t, columns in TABLES.items()}
EXISTS = (
    "SELECT o_orderkey FROM stg.orders WHERE EXISTS "
    "(SELECT 1 FROM stg.lineitem WHERE l_orderkey = o_orderkey)"
)


@pytest.mark.parametrize("kind", ["decimal(10,2)", "string", "double"])
def test_columns_of_two_types_hold_no_cell_together(tmp_path: Path, kind: str) -> None:
    """`01` = 1 and `1` = 1, and yet they differ: what `=` casts is no cell, but a step for Spark."""
    spec = write_table(tmp_path, EXISTS, key="o_orderkey", partition=None)
    types = {**BIGINT, "stg.lineitem": {**BIGINT["stg.lineitem"], "l_orderkey": kind}}

    def strategy(known: dict[str, dict[str, str]]) -> AffectedKeys:
        facts = read(spec, ("o_orderkey",), known)
        found = affected_keys.match(facts)
        assert isinstance(found, AffectedKeys)
        return found

    assert strategy(BIGINT).cells.leaves == by({0: "o_orderkey", 1: "l_orderkey"})
    cells = strategy(types).cells
    assert cells.leaves == by({0: "o_orderkey"})
    schemas = [TableSchema(tuple(types[str(r.upstream)].items()), (), None) for r in spec.references]
    same = [TableSchema(tuple(BIGINT[str(r.upstream)].items()), (), None) for r in spec.references]
    if kind == "double":  # NaN: not even a step below the subquery
        assert cells.global_leaves == (1,)
    else:
        assert not alike(cells, schemas)
        assert alike(cells, same)


REFUSED = {
    "`o_orderkey` comes from the optional side": (
        "SELECT o_orderkey FROM stg.orders FULL JOIN stg.customer ON o_custkey = c_custkey"
    ),
    "read more than once, for different rows": (
        "WITH c AS (SELECT * FROM stg.orders) SELECT a.o_orderkey FROM c a JOIN c b ON a.o_custkey = "
        "b.o_custkey"
    ),
    "LIMIT keeps rows": (
        "SELECT o_orderkey FROM stg.orders WHERE o_custkey IN (SELECT c_custkey FROM stg.customer LIMIT 2)"
    ),
    "any change is one of it": (
        "SELECT o_orderkey FROM stg.orders WHERE o_totalprice > (SELECT AVG(o_totalprice) FROM stg.orders)"
    ),
    "ANY": "SELECT o_orderkey FROM stg.orders WHERE o_custkey = ANY (SELECT c_custkey FROM stg.customer)",
    "a subquery in the FROM clause's expressions": (
        "SELECT o_orderkey FROM stg.orders JOIN stg.customer ON c_custkey = o_custkey AND EXISTS (SELECT 1 "
        "FROM stg.nation)"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_certain_is_refused_by_name(tmp_path: Path, reason: str) -> None:
    spec = write_table(tmp_path, REFUSED[reason], key="o_orderkey", partition=None)
    found = plan(spec, ("o_orderkey",), columns=TABLES, keys=KEYS)
    assert found.strategy.name == "FULL"
    assert reason in found.reason


def test_a_star_has_its_columns_in_the_order_of_spark(tmp_path: Path) -> None:
    """Columns of UNION and IN meet by place. USING puts its column first, and takes in no third table's."""
    query = (
        "SELECT * FROM (SELECT n_nationkey AS k, n_name AS m, 1 AS a FROM stg.nation) x "
        "JOIN (SELECT r_regionkey AS k, r_name AS b FROM stg.region) y USING (k) "
        "FULL JOIN (SELECT c_custkey AS m, c_name AS c FROM stg.customer) z USING (m) "
        "LEFT JOIN (SELECT c_custkey AS k, c_name AS d FROM stg.customer) w ON w.d = z.c"
    )
    root = read(write_table(tmp_path, query, key="k", partition=None), ()).root
    assert root is not None
    assert tuple(o.name for o in root.outputs) == names("m k a b c k d")


def test_columns_that_are_not_named_are_refused(tmp_path: Path) -> None:
    query = "SELECT o_orderkey, posexplode(split('a b', ' ')) FROM stg.orders"
    spec = write_table(tmp_path, query, key="o_orderkey", partition=None)
    assert (
        "columns without names" in plan(spec, ("o_orderkey", "pos", "col"), columns=TABLES, keys=KEYS).reason
    )


def test_the_reason_tells_what_reruns_the_whole_query(tmp_path: Path) -> None:
    query = f"{NOT_IN} AND o_totalprice > (SELECT AVG(c_name) FROM stg.customer)"
    spec = write_table(tmp_path, query, key="o_orderkey", partition=None)
    assert plan(spec, ("o_orderkey",), columns=TABLES, keys=KEYS).reason == (
        "changed rows are found by (o_orderkey), copied from stg.orders (o_orderkey); "
        "a change of stg.lineitem reaches stg.orders by l_partkey = o_custkey; "
        "a change of stg.customer reruns the whole query; "
        "a NULL in stg.lineitem (l_partkey) reruns the whole query"
    )
