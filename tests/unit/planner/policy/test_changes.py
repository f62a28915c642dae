"""What an edit of layer files changes, told from the texts alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spec_support import write_shop

from headrace.catalog import Catalog
from headrace.declared import Edited, deployed_tables, running_project, waiting_changes
from headrace.planner.policy.changes import ChangeKind, TableChange, changes
from headrace.settings import Settings
from headrace.spec import Project, load_project, load_table
from headrace.spec.model import RefreshMode, TableName

PAID, HOURS, TOTAL = (TableName("dwd", "paid"), TableName("dws", "hours"), TableName("dws", "total"))
STG = "CREATE MATERIALIZED TABLE stg.orders FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.orders"
FILES = {
    "dwd/paid": "CREATE MATERIALIZED TABLE dwd.paid (PRIMARY KEY (id)) FRESHNESS = INTERVAL '10' SECOND\n"
    "AS SELECT id, amount, hour FROM stg.orders WHERE amount > 0",
    "dws/hours": "CREATE MATERIALIZED TABLE dws.hours (PRIMARY KEY (hour)) FRESHNESS = INTERVAL '10' SECOND\n"
    "AS SELECT hour, count(*) AS n FROM dwd.paid GROUP BY hour",
    "dws/total": "CREATE MATERIALIZED TABLE dws.total (PRIMARY KEY (n)) FRESHNESS = INTERVAL '10' SECOND\n"
    "AS SELECT sum(n) AS n FROM dws.hours",
}
Edit = Callable[[str, str, str], Project]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Replaces a piece of a file; without one the files as they are."""
    write_shop(tmp_path)
    for name, text in {"stg/orders": STG, **FILES}.items():
        path = tmp_path / "layers" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def replace(name: str = "", old: str = "", new: str = "") -> Project:
        if name:
            path = tmp_path / "layers" / f"{name}.sql"
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new))
        return load_project(tmp_path)

    return replace


@pytest.mark.parametrize("new", ["amount > 0 -- paid", "/* paid\n only */ amount\n  > 0"])
def test_a_comment_or_another_layout_is_no_change(edit: Edit, new: str) -> None:
    deployed = edit("", "", "").tables
    assert changes(deployed, edit("dwd/paid", "amount > 0", new)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "kind", "what"),
    [
        ("dwd/paid", "amount > 0", "amount > 1", ChangeKind.LOGIC, ("query",)),
        ("dwd/paid", "KEY (id)", "KEY (id, hour)", ChangeKind.LOGIC, ("PRIMARY KEY",)),
        (
            "dwd/paid",
            "(id))",
            "(id), CONSTRAINT c EXPECT (id > 1) ON VIOLATION DROP ROW)",
            ChangeKind.LOGIC,
            ("constraints that remove rows",),
        ),
        ("dwd/paid", "'10' SECOND", "'1' DAY", ChangeKind.PROPERTIES, ("FRESHNESS",)),
        ("dwd/paid", "FRESHNESS", "COMMENT 'why' FRESHNESS", ChangeKind.PROPERTIES, ("COMMENT",)),
        (
            "dwd/paid",
            "(id))",
            "(id), CONSTRAINT c EXPECT (id > 1) ON VIOLATION FAIL)",
            ChangeKind.PROPERTIES,
            ("constraints",),
        ),
    ],
)
def test_what_differs_decides_what_is_done(
    edit: Edit, name: str, old: str, new: str, kind: ChangeKind, what: tuple[str, ...]
) -> None:
    deployed = edit("", "", "").tables
    downstream = (HOURS, TOTAL) if kind is ChangeKind.LOGIC else ()
    assert changes(deployed, edit(name, old, new)) == [TableChange(PAID, kind, what, downstream)]


def test_layout_is_no_change(edit: Edit) -> None:
    deployed = edit("", "", "").tables
    assert changes(deployed, edit("dwd/paid", "AS SELECT id, ", "-- all of them\nAS\n  SELECT id,\n ")) == []


def test_tables_come_and_go(edit: Edit) -> None:
    project = edit("", "", "")
    without = {name: spec for name, spec in project.tables.items() if name != TOTAL}
    assert changes(without, project) == [TableChange(TOTAL, ChangeKind.ADDED)]
    assert changes(project.tables, Project(project.directory, without, {})) == [
        TableChange(TOTAL, ChangeKind.REMOVED)
    ]


def registered(catalog: Catalog, project: Project) -> None:
    for spec in project.tables.values():
        catalog.register(spec, RefreshMode.CONTINUOUS)


def test_the_catalog_keeps_the_text_that_made_the_rows(edit: Edit, catalog: Catalog) -> None:
    project = edit("", "", "")
    registered(catalog, project)
    found = deployed_tables(catalog, project)
    assert found == project.tables
    assert found[PAID].definition == FILES["dwd/paid"]
    assert waiting_changes(Settings(project=project.directory, data=project.directory / "nowhere")) is None


def test_a_start_runs_what_was_applied_until_the_files_are(edit: Edit, catalog: Catalog) -> None:
    project = edit("", "", "")
    registered(catalog, project)
    deployed = deployed_tables(catalog, project)
    edit("dws/hours", "'10' SECOND", "'1' DAY")
    edited = edit("dwd/paid", "amount > 0", "amount > 1")
    (project.directory / "layers" / "dws" / "total.sql").unlink()
    extra = project.directory / "layers" / "dws" / "more.sql"
    extra.write_text(FILES["dws/total"].replace("dws.total", "dws.more"))
    edited = load_project(project.directory)

    running, waiting = running_project(edited, deployed)
    assert waiting
    assert list(running.tables) == list(project.tables)
    assert running.tables[PAID].query == project.tables[PAID].query
    assert running.tables[HOURS].freshness == edited.tables[HOURS].freshness  # no row depends on it


def test_files_that_leave_rows_as_they_are_count_at_once(edit: Edit, catalog: Catalog) -> None:
    project = edit("", "", "")
    registered(catalog, project)
    deployed = deployed_tables(catalog, project)
    (project.directory / "layers" / "dws" / "total.sql").unlink()
    edited = edit("dwd/paid", "'10' SECOND", "'1' DAY")
    assert running_project(edited, deployed) == (edited, False)
    assert running_project(edited, {}) == (edited, False)


def test_an_edited_file_is_told_until_it_is_applied(edit: Edit) -> None:
    project, edited = edit(), Edited()
    spec = project.tables[HOURS]
    assert edited.warning(spec, project) is None
    text = spec.path.read_text()

    def write(new: str) -> None:
        spec.path.write_text(new)
        os.utime(spec.path, ns=(0, len(new)))  # however coarse the clock of the file system

    write(text.replace("SELECT", "-- a remark\nSELECT"))
    assert edited.warning(spec, project) is None
    write(text.replace("count(*)", "count(id)"))
    told = "its file was edited (query). Next: `headrace plan`, `headrace apply`"
    assert edited.warning(spec, project) == told == edited.warning(spec, project)
    assert edited.warning(load_table(spec.path), project) is None  # applied
    write(text.replace("CREATE", "CRATE"))
    assert "hours.sql:1:1" in str(edited.warning(spec, project))
    spec.path.unlink()
    assert "its file is gone" in str(edited.warning(spec, project))
