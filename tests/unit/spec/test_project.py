"""A project: files in the order their data flows, and everything one file alone cannot get wrong."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_support import declaration, load_queries, write, write_shop

from headrace.errors import SpecError, TerminalError, UnknownName
from headrace.spec import ProjectErrors, SourceTable, TableName, load_connector, load_project


def test_upstreams_stand_before_their_readers(tmp_path: Path) -> None:
    project = load_queries(
        tmp_path,
        dws__a="SELECT a FROM dwd.b JOIN dwd.z USING (a)",
        dwd__b="SELECT a FROM dwd.z",
        dwd__z="SELECT a FROM stg.orders",
        stg__orders="SELECT * FROM shop.public.orders",
    )
    assert [str(n) for n in project.tables] == ["stg.orders", "dwd.z", "dwd.b", "dws.a"]
    assert project.sources() == {SourceTable("shop", "public", "orders")}
    assert project.downstream("dwd.z") == (TableName("dwd", "b"), TableName("dws", "a"))
    assert project.downstream(TableName("dws", "a")) == ()
    assert project.table("DWD.z").name == TableName("dwd", "z")


def test_a_table_that_does_not_exist(tmp_path: Path) -> None:
    project = load_queries(tmp_path, stg__orders="SELECT * FROM shop.public.orders")
    for name in ("stg.order", "order", "orders"):
        with pytest.raises(UnknownName, match=rf"no table `{name}` .*did you mean `stg\.orders`\?"):
            project.table(name)


@given(st.permutations(range(6)), st.integers(0, 2**15))
def test_the_order_is_topological_for_any_graph(
    tmp_path_factory: pytest.TempPathFactory, names: list[int], bits: int
) -> None:
    # Edges go from later to earlier positions, so there is no cycle; names hide the positions.
    pairs = [(i, j) for i in range(6) for j in range(i)]
    edges = {pair for n, pair in enumerate(pairs) if bits >> n & 1}
    queries = {"stg__s": "SELECT * FROM shop.public.orders"}
    for i, name in enumerate(names):
        upstreams = [f"dwd.t{names[j]}" for j in range(i) if (i, j) in edges] or ["stg.s"]
        queries[f"dwd__t{name}"] = " UNION ALL ".join(f"SELECT a FROM {u}" for u in upstreams)
    project = load_queries(tmp_path_factory.mktemp("graph"), **queries)
    order = list(project.tables)
    assert len(order) == 7
    for spec in project.tables.values():
        assert all(
            order.index(u) < order.index(spec.name) for u in spec.upstreams if isinstance(u, TableName)
        )


def refused(directory: Path) -> SpecError:
    with pytest.raises(SpecError) as error:
        load_project(directory)
    return error.value


def test_a_cycle_is_named_with_the_reference_that_closes_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        load_queries(
            tmp_path,
            dwd__a="SELECT a\nFROM dwd.b",
            dwd__b="SELECT a\nFROM dws.c",
            dws__c="SELECT a\nFROM dwd.a",
            dwd__free="SELECT a FROM dwd.a",
        )
    told = str(error.value)
    steps = told.split("a cycle: ")[1].split(" (")[0].split(" → ")
    assert steps[0] == steps[-1]
    assert set(steps) == {"dwd.a", "dwd.b", "dws.c"}
    assert set(pairwise(steps)) == {("dwd.a", "dwd.b"), ("dwd.b", "dws.c"), ("dws.c", "dwd.a")}
    # The reference that is located is one of the cycle: its file reads the table named on that line.
    location = error.value.location
    assert (location.line, location.column) == (5, 6)
    assert location.path.stem in ("a", "b", "c")


def test_a_table_that_reads_itself_is_a_cycle(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"a\.sql:4:15: a cycle: dwd\.a → dwd\.a"):
        load_queries(tmp_path, dwd__a="SELECT a FROM dwd.a")


def test_an_unknown_upstream(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"a\.sql:5:6: there is no table `stg\.order`") as error:
        load_queries(
            tmp_path, dwd__a="SELECT a\nFROM stg.order", stg__orders="SELECT * FROM shop.public.orders"
        )
    assert error.value.hint == "did you mean `stg.orders`?"


def test_an_unknown_source(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"orders\.sql:4:15: there is no source `shoop`") as error:
        load_queries(tmp_path, stg__orders="SELECT * FROM shoop.public.orders")
    assert error.value.hint == "did you mean `shop`?"


def test_a_source_table_that_is_not_captured(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"o\.sql:4:15: source `shop` does not capture `public\.order`"
    ) as error:
        load_queries(tmp_path, stg__o="SELECT * FROM shop.public.order")
    assert error.value.hint
    assert "did you mean `public.orders`" in error.value.hint


@pytest.mark.parametrize(
    ("include", "captured"),
    [
        ("public.orders", True),
        ("public.users, public.orders", True),
        (r"public\.ord.*", True),
        ("PUBLIC.ORDERS", True),
        ("public.order", False),
        ("other.orders", False),
        ("public.orders_old", False),
    ],
)
def test_the_include_list_is_debeziums(tmp_path: Path, include: str, captured: bool) -> None:
    connector = load_connector(write_shop(tmp_path, include=include))
    assert connector.captures("public", "orders") is captured


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    write_shop(tmp_path)
    write(tmp_path, "stg.orders", declaration("stg.orders", "SELECT * FROM shoop.public.orders"))
    write(tmp_path, "dwd.a", declaration("dwd.a", "SELEC a FROM stg.orders"))
    write(tmp_path, "dwd.b", declaration("dwd.b", "SELECT a FROM dwd.a JOIN stg.none USING (a)"))
    error = refused(tmp_path)
    assert isinstance(error, ProjectErrors)
    # dwd.b reads dwd.a, which is there: its own error is enough
    assert [(e.location.path.name, e.location.line) for e in error.errors] == [
        ("a.sql", 4), ("b.sql", 4), ("orders.sql", 4)
    ]  # fmt: skip
    assert all(str(e) in str(error) for e in error.errors)


def test_no_layer_file(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="there is no layer file"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("place", "message"),
    [("layers/dwd/old/dwd/x.sql", "stands in layers/<layer>/"), ("layers/ods/x.sql", "`ods` is no layer")],
)
def test_a_layer_file_in_the_wrong_place_is_not_passed_over(tmp_path: Path, place: str, message: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(declaration(f"{path.parent.name}.x", "SELECT a FROM stg.o"))
    assert message in str(refused(tmp_path))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"name": "shop",\n "config": {]', 2, "is not JSON"),
        ("[]", 1, "is no connector file"),
        ('{"name": "shop"}', 1, "is no connector file"),
        ('{"name": "shop", "config": {\n"topic.prefix": "shp"}}', 2, "its topic.prefix `shp`"),
        (
            '{\n"name": "store", "config": {"topic.prefix": "store"}}',
            2,
            "the file is `shop`, its name `store`",
        ),
    ],
)
def test_a_broken_connector_file(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = write_shop(tmp_path)
    path.write_text(text)
    write(tmp_path, "stg.orders", declaration("stg.orders", "SELECT * FROM shop.public.orders"))
    error = refused(tmp_path)
    assert (error.location.path, error.location.line) == (path, line)
    assert message in str(error)
    assert not isinstance(error, ProjectErrors)


def test_a_connector(tmp_path: Path) -> None:
    connector = load_connector(write_shop(tmp_path))
    assert (connector.name, connector.database, connector.schemas) == ("shop", "shop", ("public",))
    assert connector.tables[0] == "public.users"
