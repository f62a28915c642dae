"""The cases of this repository's tables, in every mode; and that a table that is wrong fails in each."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.cases.model import GivenRow, Step, cases_of
from headrace.cases.outcome import difference
from headrace.cases.play import Mode
from headrace.cases.run import find_cases, run
from headrace.cases.values import rows_of
from headrace.engine.spark.sessions import Sessions
from headrace.errors import Location, SpecError, TerminalError
from headrace.spec import load_project

ROOT = Path(__file__).resolve().parents[2]
TABLES = list(map(str, load_project(ROOT).tables))


@pytest.fixture
def sessions(sessions: Sessions) -> Sessions:
    """A few rows cost a third with the settings for them."""
    return Sessions(sessions.flow, sessions.flow, sessions.flow)


def test_every_table_has_what_its_cases_say(sessions: Sessions) -> None:
    project = load_project(ROOT)
    found = find_cases(project)
    assert {str(cases.table) for cases in found} == set(TABLES)
    outcomes = list(run(sessions, project, found))
    assert len(outcomes) == len(Mode) * sum(len(cases.cases) for cases in found)
    failed = [line for outcome in outcomes if not outcome.passed for line in outcome.lines()]
    assert not failed, "\n".join(failed)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("layers/stg", "layers/dwd", "layers/dws", "deploy/connectors"):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "layers/stg/orders.sql",
        "layers/stg/orders.cases.yml",
        "layers/dwd/orders.sql",
        "layers/dwd/orders.cases.yml",
        "layers/dws/gmv_hour.sql",
        "layers/dws/gmv_hour.cases.yml",
        "deploy/connectors/shop.json",
    ):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def edit(project: Path, file: str, was: str, becomes: str) -> None:
    path = project / "layers" / file
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, becomes))


@pytest.mark.parametrize(
    ("file", "was", "becomes"),
    [
        ("stg/orders.sql", "SELECT *", "SELECT * EXCEPT (amount), amount + 1 AS amount"),
        ("dwd/orders.sql", "amount > 0", "amount >= 0"),
        ("dws/gmv_hour.sql", "COUNT(DISTINCT user_id)", "COUNT(user_id)"),
    ],
)
def test_another_query_fails_in_every_mode(
    sessions: Sessions, project: Path, file: str, was: str, becomes: str
) -> None:
    edit(project, file, was, becomes)
    declared = load_project(project)
    [found] = find_cases(declared, [file.removesuffix(".sql").replace("/", ".")])
    outcomes = [o for o in run(sessions, declared, [found]) if not o.passed]
    assert {o.mode for o in outcomes} == set(Mode)
    assert all(o.difference is not None and o.difference.extra for o in outcomes), outcomes
    assert all(o.where.startswith(str(found.path)) for o in outcomes)


def test_what_is_declared_of_rows_holds_in_every_mode(sessions: Sessions, project: Path) -> None:
    rule = "type: expect_column_values_to_be_in_set\n    kwargs: {column: status, value_set: [paid]}"
    (project / "layers/dwd/orders.checks.yml").write_text(f"checks:\n  - {rule}\n")
    edit(project, "dws/gmv_hour.sql", "buyers > 0 AND", "buyers > 1 AND")
    declared = load_project(project)
    for table, says in (("dwd.orders", "expectation"), ("dws.gmv_hour", "constraint `has_buyers`")):
        outcomes = list(run(sessions, declared, find_cases(declared, [table])))
        broken = [o for o in outcomes if says in o.problem and "nothing was committed" in o.problem]
        assert {o.mode for o in broken} == set(Mode), outcomes


def test_what_cannot_run_is_told_with_its_place(sessions: Sessions, project: Path) -> None:
    edit(project, "dwd/orders.cases.yml", "amount: 0.01", "amount: little")
    declared = load_project(project)
    outcomes = list(run(sessions, declared, find_cases(declared, ["dwd.orders"])))
    wrong = [o for o in outcomes if o.case == "a_status_has_one_spelling"]
    assert [o.mode for o in wrong if not o.passed] == list(Mode)
    assert all(o.problem == "`amount` is a decimal(12,2), which 'little' is not" for o in wrong)
    assert all(o.where.endswith("dwd/orders.cases.yml:6:11") for o in wrong)
    assert all(o.passed for o in outcomes if o not in wrong)
    edit(project, "stg/orders.cases.yml", "source:", "cases: []\nsource:")
    with pytest.raises(SpecError, match="`cases` stands twice"):
        find_cases(load_project(project))
    (project / "layers/stg/orders.cases.yml").unlink()
    with pytest.raises(
        SpecError, match=r"`shop.public.orders` are not known.*\n.*headrace test --new stg.orders"
    ):
        list(run(sessions, declared, find_cases(declared, ["dws.gmv_hour"])))
    with pytest.raises(TerminalError, match=r"`stg.orders` has no cases: .*headrace test --new stg.orders"):
        find_cases(declared, ["stg.orders"])
    assert cases_of(declared.table("stg.orders")) is None


COLUMNS = (("user_id", "bigint"), ("amount", "decimal(12,2)"), ("at", "timestamp"), ("tags", "array<string>"))
AT = Location(Path("layers/dws/t.cases.yml"), 3, 5)


def rows(*values: dict[str, object]) -> tuple[GivenRow, ...]:
    return tuple(GivenRow(row, AT) for row in values)


@pytest.mark.usefixtures("spark")
def test_values_have_the_types_of_their_columns() -> None:
    given = rows(
        {"user_id": "7", "amount": 10.0, "at": datetime(2026, 11, 20, 9, tzinfo=UTC), "tags": ["a", None]},
        {"at": "2026-11-20 09:00:00"},
        {"at": "2026-11-20T10:00:00.000000+01:00"},
    )
    first, second, third = rows_of(given, COLUMNS, "dws.t").to_pylist()
    assert (first["user_id"], first["amount"], first["tags"]) == (7, Decimal("10.00"), ["a", None])
    assert first["at"] == second["at"] == third["at"] and second["user_id"] is None
    with pytest.raises(SpecError, match=r"yml:3:5: `amount` is a decimal\(12,2\), which 'much' is not"):
        rows_of(rows({"amount": "much"}), COLUMNS, "dws.t")
    with pytest.raises(SpecError, match=r"yml:3:5: `dws.t` has no column `amont`\n.*did you mean `amount`"):
        rows_of(rows({"amont": 1}), COLUMNS, "dws.t")


@pytest.mark.usefixtures("spark")
def test_rows_that_differ_are_shown() -> None:
    step = Step({}, {}, rows({"user_id": 1, "amount": 2}, {"user_id": 1, "amount": 2}), AT)
    same = rows_of(step.expect, COLUMNS, "dws.t")
    assert difference(step, same, COLUMNS, "dws.t") is None
    found = difference(step, same.slice(1), COLUMNS, "dws.t")  # one of two equal rows
    assert found is not None and found.missing == (("1", "2.00"),) and not found.extra
    assert found.lines() == ["   user_id  amount", "-  1        2.00"]
    nothing = difference(Step({}, {}, (), AT), same, COLUMNS, "dws.t")
    assert nothing is not None and nothing.columns == tuple(name for name, _ in COLUMNS)
