from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.statements.read_anew import ReadAnew
from headrace.engine.supervisor.failures import Failures
from headrace.errors import HeadraceError, SnapshotAnew, TerminalError, TransientError
from headrace.spec.model import TableName

USERS = TableName("stg", "users")


class Catalog:
    def __init__(self) -> None:
        self.state, self.says = "RUNNING", ""

    def observe(self, name: TableName, state: str, error: str = "") -> None:
        self.state, self.says = state, error

    def row(self, name: TableName) -> Any:
        return SimpleNamespace(state=self.state)


@pytest.mark.parametrize(
    ("answers", "asked", "waits"),
    [
        ([None], 1, False),
        ([TransientError("it reads"), None], 2, False),
        ([TransientError("it reads")], 1, True),
    ],
)
def test_a_source_is_read_until_it_was(answers: list[Exception | None], asked: int, waits: bool) -> None:
    catalog, table = Catalog(), cast(Any, SimpleNamespace(name=USERS))
    failures = Failures(cast(Any, catalog))
    calls: list[Any] = []

    def resync(which: Any) -> None:
        calls.append(which)
        if (error := answers[len(calls) - 1]) is not None:
            raise error
        catalog.state = "RUNNING"

    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, pytest.fail, resync)
    failures.failed(table, SnapshotAnew("began anew"))
    assert catalog.state == "NEEDS RESYNC"
    for _ in answers:
        anew.look()
    assert len(calls) == asked and bool(failures.anew) is waits


@pytest.mark.parametrize("error", [TerminalError("no"), HeadraceError("no")])
def test_what_keeps_it_from_being_read_is_said_once(error: Exception) -> None:
    catalog, table = Catalog(), cast(Any, SimpleNamespace(name=USERS))
    failures = Failures(cast(Any, catalog))

    def resync(which: Any) -> None:
        raise error

    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, pytest.fail, resync)
    failures.failed(table, SnapshotAnew("began anew"))
    anew.look()
    assert (catalog.says, failures.anew) == ("no", {})


def test_tables_of_which_the_connector_found_no_rows_are_read_too() -> None:
    """No event tells that what they hold is gone."""
    catalog = Catalog()

    def of(name: str, source: str, version: int, snapshot: int) -> Any:
        at = SimpleNamespace(version=version, commit=SimpleNamespace(snapshot=snapshot))
        captured = SimpleNamespace(table=SimpleNamespace(source=source))
        spec = SimpleNamespace(source=captured.table)
        return SimpleNamespace(name=TableName("stg", name), store=at, source=captured, spec=spec)

    tables = [
        of("users", "shop", 3, 5),
        of("gone", "shop", 3, 5),
        of("read", "shop", 3, 9),
        of("empty", "shop", 0, 0),
        of("elsewhere", "bank", 3, 5),
    ]
    failures, calls = Failures(cast(Any, catalog)), list[str]()

    def leave(table: Any, why: SnapshotAnew) -> None:
        calls.append(f"{table.name} leaves")
        failures.failed(table, why)

    registry = cast(Any, Tables({t.name: t for t in tables}))
    anew = ReadAnew(registry, failures, leave, lambda table: calls.append(str(table.name)))
    failures.failed(tables[0], SnapshotAnew("began anew", 9))
    anew.look()
    assert calls == ["stg.gone leaves", "stg.gone", "stg.users"]
    failures.failed(tables[0], SnapshotAnew("began anew", 9))  # those that were read are not read once more
    anew.look()
    assert calls[3:] == ["stg.users"]


@dataclass
class Tables:
    tables: dict[TableName, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tables.values())


def test_a_table_that_goes_on_is_left_alone() -> None:
    catalog, table = Catalog(), cast(Any, SimpleNamespace(name=USERS))
    failures = Failures(cast(Any, catalog))
    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, pytest.fail, pytest.fail)
    failures.failed(table, SnapshotAnew("began anew"))
    catalog.state = "RUNNING"  # a person has let it be read
    anew.look()
    assert not failures.anew
