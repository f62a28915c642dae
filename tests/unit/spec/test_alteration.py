"""What statements set of tables over their files: its texts, and how long it counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from planner_support import write_table
from repository import ROOT

from headrace.catalog import Catalog
from headrace.declared import load_declared
from headrace.engine.statements.alter import with_alterations
from headrace.errors import TerminalError
from headrace.settings import Settings
from headrace.spec import Project, load_project
from headrace.spec.alteration import Alteration, altered, check_alteration, declared, freshness_text
from headrace.spec.model import RefreshMode, TableName

ORDERS = TableName("dwd", "orders")


def project(directory: Path, freshness: str = "INTERVAL '10' SECOND") -> Project:
    query = "SELECT id, logdate FROM stg.orders"
    spec = write_table(directory, query, key="id", name=str(ORDERS), freshness=freshness)
    return Project(directory, {ORDERS: spec}, {})


@pytest.mark.parametrize(
    ("freshness", "text"),
    [
        (timedelta(seconds=90), "INTERVAL '90' SECOND"),
        (timedelta(seconds=120), "INTERVAL '2' MINUTE"),
        (timedelta(hours=24), "INTERVAL '1' DAY"),
        (None, "DOWNSTREAM"),
    ],
)
def test_a_freshness_is_said_as_in_a_file(tmp_path: Path, freshness: timedelta | None, text: str) -> None:
    assert freshness_text(freshness) == text
    spec = project(tmp_path).tables[ORDERS]
    assert altered(spec, [Alteration(ORDERS, "FRESHNESS", text, "")]).freshness == freshness


def test_both_properties_are_set_and_the_query_stays(tmp_path: Path) -> None:
    spec = project(tmp_path).tables[ORDERS]
    found = altered(
        spec,
        [Alteration(ORDERS, "FRESHNESS", "DOWNSTREAM", ""), Alteration(ORDERS, "REFRESH_MODE", "FULL", "")],
    )
    assert found == replace(spec, freshness=None, refresh_mode=RefreshMode.FULL)
    with pytest.raises(ValueError, match="no freshness"):
        altered(spec, [Alteration(ORDERS, "FRESHNESS", "INTERVAL '1' WEEK", "")])


def test_it_counts_over_restarts_until_the_file_says_something_else(tmp_path: Path, catalog: Catalog) -> None:
    files = project(tmp_path)
    said = declared(files.tables[ORDERS], "FRESHNESS")
    assert said == "INTERVAL '10' SECOND"
    catalog.alterations.set(Alteration(ORDERS, "FRESHNESS", "INTERVAL '2' DAY", said))
    catalog.alterations.set(Alteration(ORDERS, "FRESHNESS", "INTERVAL '1' DAY", said))
    catalog.alterations.set(Alteration(ORDERS, "REFRESH_MODE", "FULL", ""))
    catalog.close()

    found = with_alterations(files, catalog.alterations).tables[ORDERS]
    assert (found.freshness, found.refresh_mode) == (timedelta(days=1), RefreshMode.FULL)

    edited = project(tmp_path, "INTERVAL '1' HOUR")
    found = with_alterations(edited, catalog.alterations).tables[ORDERS]
    assert (found.freshness, found.refresh_mode) == (timedelta(hours=1), RefreshMode.FULL)
    assert [a.what for a in catalog.alterations.all()] == ["REFRESH_MODE"]  # also where it says the old again
    catalog.alterations.drop(ORDERS, "REFRESH_MODE")
    catalog.alterations.drop(ORDERS, "REFRESH_MODE")
    assert with_alterations(edited, catalog.alterations) == edited


def test_a_table_that_is_gone_takes_its_alterations_along(tmp_path: Path, catalog: Catalog) -> None:
    catalog.alterations.set(Alteration(TableName("dws", "gone"), "FRESHNESS", "DOWNSTREAM", ""))
    assert with_alterations(project(tmp_path), catalog.alterations) == project(tmp_path)
    assert catalog.alterations.all() == []


def test_who_only_reads_the_catalog_leaves_it_as_it_is(tmp_path: Path) -> None:
    connector = tmp_path / "deploy" / "connectors" / "shop.json"
    connector.parent.mkdir(parents=True)
    connector.write_text(ROOT.joinpath("deploy/connectors/shop.json").read_text())
    write_table(tmp_path, "SELECT * FROM shop.public.orders", key="", name="stg.orders")
    project(tmp_path)
    settings = Settings(project=tmp_path, data=tmp_path / "data")
    files, nothing = load_declared(settings)
    assert files == load_project(tmp_path) and nothing == [] and not settings.state.exists()
    set_ = Alteration(ORDERS, "FRESHNESS", "INTERVAL '1' DAY", "INTERVAL '10' SECOND")
    outdated = Alteration(ORDERS, "REFRESH_MODE", "FULL", "CONTINUOUS")
    catalog = Catalog(settings.catalog)
    catalog.alterations.set(set_)
    catalog.alterations.set(outdated)
    found, alterations = load_declared(settings)
    assert found.tables[ORDERS] == replace(files.tables[ORDERS], freshness=timedelta(days=1))
    assert alterations == [set_] and catalog.alterations.all() == [set_, outdated]


def test_a_stg_table_streams(tmp_path: Path) -> None:
    stg = write_table(tmp_path, "SELECT * FROM shop.public.orders", key="", name="stg.orders")
    check_alteration(stg, "FRESHNESS", "INTERVAL '1' DAY")
    check_alteration(stg, "REFRESH_MODE", None)
    check_alteration(stg, "REFRESH_MODE", "CONTINUOUS")
    with pytest.raises(TerminalError, match=r"`stg.orders` reads a source.*Next: set the mode of the tables"):
        check_alteration(stg, "REFRESH_MODE", "INCREMENTAL")
