"""A project divided among servers by its sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import declaration, write, write_shop

from headrace.catalog import Catalog
from headrace.declared import deployed_tables
from headrace.errors import SpecError, TerminalError, UnknownName
from headrace.spec import Project, load_project
from headrace.spec.model import RefreshMode, TableName
from headrace.spec.serving import served

QUERIES = {
    "stg.orders": "SELECT * FROM shop.public.orders",
    "stg.bills": "SELECT * FROM billing.public.orders",
    "dwd.a": "SELECT order_id AS a FROM stg.orders",
    "dwd.b": "SELECT order_id AS a FROM stg.bills",
    "dws.a": "SELECT a FROM dwd.a",
}
A, B = TableName("dwd", "a"), TableName("dwd", "b")


def project(directory: Path, **queries: str) -> Project:
    for source in ("shop", "billing"):
        write_shop(directory, source=source)
    for name, query in {**QUERIES, **{k.replace("__", "."): q for k, q in queries.items()}}.items():
        write(directory, name, declaration(name, query))
    return load_project(directory)


def names(project: Project) -> list[str]:
    return sorted(map(str, project.tables))


def test_each_server_has_what_comes_of_its_sources(tmp_path: Path) -> None:
    whole = project(tmp_path)
    one, other = served(whole, ["shop"]), served(whole, ["billing"])
    assert (names(one), [*one.connectors]) == (["dwd.a", "dws.a", "stg.orders"], ["shop"])
    assert (names(other), [*other.connectors]) == (["dwd.b", "stg.bills"], ["billing"])
    assert served(whole, ["billing", "shop"]).tables == whole.tables
    assert served(whole, ()) is whole


def test_a_table_that_another_server_keeps_is_said_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"`dwd.b` comes of `billing`, which another server serves"):
        served(project(tmp_path), ["shop"]).table("dwd.b")


def test_one_that_comes_of_both_is_refused_where_it_reads_the_others(tmp_path: Path) -> None:
    whole = project(tmp_path, dws__both="SELECT dwd.a.a FROM dwd.a\nJOIN dwd.b ON dwd.a.a = dwd.b.a")
    for source, line in ("shop", 5), ("billing", 4):
        with pytest.raises(
            SpecError, match="`billing`, `shop`, which one server must serve together"
        ) as found:
            served(whole, [source])
        assert (found.value.location.path.name, found.value.location.line) == ("both.sql", line)
    assert served(whole, ["billing", "shop"]).tables == whole.tables


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"no source `shap`.*did you mean `shop`"):
        served(project(tmp_path), ["shap"])


def test_one_catalog_knows_the_tables_of_both(tmp_path: Path) -> None:
    """Neither takes the other's for tables that are gone, nor one that still is the other's."""
    whole = project(tmp_path)
    catalog = Catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    for spec in whole.tables.values():
        catalog.register(spec, RefreshMode.CONTINUOUS)
    assert deployed_tables(catalog, whole) == whole.tables
    for sources in ["shop"], ["billing"]:
        own = served(whole, sources)
        assert deployed_tables(catalog, own, sources) == own.tables
    moved = project(tmp_path, dwd__b="SELECT order_id AS a FROM stg.orders")
    with pytest.raises(
        TerminalError, match=r"`dwd.b` was applied by the server of another source.*headrace apply"
    ):
        deployed_tables(catalog, served(moved, ["shop"]), ["shop"])
    catalog.drop(B)  # as the other one's apply does
    assert B not in deployed_tables(catalog, served(moved, ["shop"]), ["shop"])
