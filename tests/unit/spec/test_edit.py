"""CREATE, ALTER … AS, ROLLBACK and DROP as edits of layer files."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import write_shop

from headrace.errors import SpecError, TerminalError
from headrace.spec import Project, load_project
from headrace.spec.edit import create, drop, rollback, with_query
from headrace.spec.model import TableName

STG = "CREATE MATERIALIZED TABLE stg.orders FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.orders"
PAID = (
    "-- Paid orders.\nCREATE MATERIALIZED TABLE dwd.paid (PRIMARY KEY (id))\n"
    "COMMENT 'paid' FRESHNESS = INTERVAL '10' SECOND\nAS\nSELECT id FROM stg.orders WHERE amount > 0\n"
)
TOTAL = (
    "CREATE MATERIALIZED TABLE dws.total (PRIMARY KEY (n)) FRESHNESS = DOWNSTREAM "
    "AS SELECT count(*) AS n FROM dwd.paid"
)
NAME = TableName("dwd", "paid")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    write_shop(tmp_path)
    for name, text in {"stg/orders": STG, "dwd/paid": PAID}.items():
        path = tmp_path / "layers" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_project(tmp_path)


def test_a_created_table_is_its_file(project: Project) -> None:
    edit = create(project, TOTAL, or_alter=False)
    edit.check()
    assert list(map(str, edit.project.tables)) == ["stg.orders", "dwd.paid", "dws.total"]
    assert not edit.files[0].path.exists()
    edit.write()
    assert load_project(project.directory).tables == edit.project.tables


def test_an_existing_table_is_only_altered_where_it_is_said(project: Project) -> None:
    text = PAID.replace("amount > 0", "amount > 1")
    with pytest.raises(TerminalError, match=r"`dwd.paid` exists. Next: CREATE OR ALTER"):
        create(project, text, or_alter=False)
    edit = create(project, text.replace("CREATE", "CREATE OR ALTER"), or_alter=True)
    edit.write()
    assert "amount > 1" in load_project(project.directory).tables[NAME].query


def test_a_wrong_declaration_is_told_where(project: Project) -> None:
    with pytest.raises(SpecError, match=r"total.sql:1:\d+: there is no table `dwd.piad`"):
        create(project, TOTAL.replace("dwd.paid", "dwd.piad"), or_alter=False)
    with pytest.raises(SpecError, match="`mart` is no layer"):
        create(project, TOTAL.replace("dws.total", "mart.total"), or_alter=False)
    with pytest.raises(SpecError, match="a cycle: "):
        with_query(create(project, TOTAL, or_alter=False).project, NAME, "SELECT n AS id FROM dws.total")


def test_another_query_leaves_the_rest_of_the_file(project: Project) -> None:
    edit = with_query(project, NAME, "SELECT id FROM stg.orders WHERE amount > 9 ")
    edit.write()
    assert edit.files[0].path.read_text() == PAID.replace("amount > 0", "amount > 9")
    assert load_project(project.directory).tables[NAME].comment == "paid"


def test_the_former_definition_comes_back(project: Project) -> None:
    former = PAID.replace("amount > 0", "amount > 1")
    edit = rollback(project, NAME, former)
    edit.check()
    edit.write()
    assert edit.files[0].path.read_text() == former
    assert load_project(project.directory).tables == edit.project.tables
    with pytest.raises(TerminalError, match=r"`dwd.paid` had no other definition before. Next: "):
        rollback(project, NAME, None)
    with pytest.raises(SpecError, match=r"paid.sql:5:\d+: there is no table `stg.gone`"):
        rollback(project, NAME, PAID.replace("stg.orders", "stg.gone"))


def test_a_table_that_is_read_stays(project: Project) -> None:
    create(project, TOTAL, or_alter=False).write()
    edited = load_project(project.directory)
    with pytest.raises(TerminalError, match=r"is read by `dws.total`. Next: DROP MATERIALIZED"):
        drop(edited, NAME)
    edit = drop(edited, TableName("dws", "total"))
    edit.check()
    edit.write()
    assert not edit.files[0].path.exists()
    assert load_project(project.directory).tables == project.tables


def test_a_file_edited_since_is_not_written_over(project: Project) -> None:
    edit = with_query(project, NAME, "SELECT id FROM stg.orders WHERE amount > 9")
    edit.files[0].path.write_text(PAID.replace("paid'", "all paid'"))
    with pytest.raises(TerminalError, match=r"paid.sql is not as it was applied last. Next: `headr"):
        edit.check()
    edit = create(project, TOTAL, or_alter=False)
    edit.files[0].path.parent.mkdir()
    edit.files[0].path.write_text(TOTAL)
    with pytest.raises(TerminalError, match="is not as it was applied last"):
        edit.check()
