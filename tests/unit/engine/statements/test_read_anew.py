from __future__ import annotations

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

    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, resync)
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

    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, resync)
    failures.failed(table, SnapshotAnew("began anew"))
    anew.look()
    assert (catalog.says, failures.anew) == ("no", set())


def test_a_table_that_goes_on_is_left_alone() -> None:
    catalog, table = Catalog(), cast(Any, SimpleNamespace(name=USERS))
    failures = Failures(cast(Any, catalog))
    anew = ReadAnew(cast(Any, SimpleNamespace(tables={USERS: table})), failures, pytest.fail)
    failures.failed(table, SnapshotAnew("began anew"))
    catalog.state = "RUNNING"  # a person has let it be read
    anew.look()
    assert not failures.anew
