"""Where a table is published: what a file may say, and what no file may."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import declaration, load_query, write, write_shop

from headrace.errors import SpecError, TerminalError
from headrace.spec import load_project
from headrace.spec.publishing import Target

URL = "postgresql://serving:${env:HEADRACE_TARGET_PASSWORD}@db.example:6543/reports"


def published(tmp_path: Path, **options: str) -> Target | None:
    clauses = ", ".join(f"'publish{name}' = '{value}'" for name, value in options.items())
    return load_query(tmp_path, "SELECT a FROM dwd.o", clauses=f"WITH ({clauses})").target


def test_a_target_and_its_name(tmp_path: Path) -> None:
    assert load_query(tmp_path, "SELECT a FROM dwd.o").target is None
    found = published(tmp_path, **{"": URL})
    assert found == Target(URL, "dws", "t")
    assert str(found) == "dws.t at db.example:6543/reports"
    named = published(tmp_path, **{"": URL, ".table": "public.totals"})
    assert named == Target(URL, "public", "totals")


def test_variables_are_resolved_where_it_runs() -> None:
    environment = {"HEADRACE_TARGET_PASSWORD": "p@ss:/w", "HEADRACE_TARGET_URL": "postgresql://a:b@c/d"}
    assert Target(URL, "s", "t").dsn(environment) == (
        "postgresql://serving:p%40ss%3A%2Fw@db.example:6543/reports"
    )
    assert Target("${env:HEADRACE_TARGET_URL}", "s", "t").dsn(environment) == "postgresql://a:b@c/d"
    with pytest.raises(TerminalError, match="HEADRACE_TARGET_PASSWORD, which is not set"):
        Target(URL, "s", "t").dsn({})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({".table": "a.b"}, "'publish.table' is that of 'publish'"),
        ({"": "mysql://a/b"}, "'mysql://a/b' is no database to publish to"),
        ({"": "postgresql://db.example"}, "is no database to publish to"),
        ({"": "postgresql://db.example:port/x"}, "is no database to publish to"),
        ({"": "postgresql://a:secret@db.example/x"}, "a layer file holds no password"),
        ({"": "mysql://a:secret@db.example/x"}, "'mysql://a:…@db.example/x' is no database"),
        ({"": URL.replace("TARGET", "SOURCE")}, "'HEADRACE_SOURCE_PASSWORD' is no variable of a target"),
        ({"": URL, ".table": "totals"}, "'totals' is no table of a database"),
        ({"": URL, ".table": "a.b.c"}, "'a.b.c' is no table of a database"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        published(tmp_path, **options)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


def test_two_tables_are_not_published_to_one(tmp_path: Path) -> None:
    write_shop(tmp_path)
    write(tmp_path, "stg.o", declaration("stg.o", "SELECT * FROM shop.public.orders"))
    clauses = f"WITH ('publish' = '{URL}', 'publish.table' = 'public.t')\n"
    for name in ("dws.one", "dws.two"):
        write(tmp_path, name, declaration(name, "SELECT a FROM stg.o", clauses=clauses))
    with pytest.raises(SpecError, match=r"two\.sql:1:1: dws\.one is published to public\.t at db\.example"):
        load_project(tmp_path)
