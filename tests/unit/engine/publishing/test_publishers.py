"""Which tables are published, and as whose."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.publishing import publishers
from headrace.engine.publishing.publishers import IDENTITY, Publishers
from headrace.errors import TerminalError
from headrace.spec.model import TableName

TABLE = SimpleNamespace(name=TableName("dws", "t"), spec=SimpleNamespace(target="postgresql://x"))


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As whose each publisher is made that there is."""
    found: list[str] = []

    class Told:
        def __init__(self, name: TableName, target: str, *rest: Any) -> None:
            self.target = target
            found.append(rest[3])

        def start(self) -> None:
            pass

    monkeypatch.setattr(publishers, "Publisher", Told)
    return found


def look(warehouse: Path, state: Path, environment: str = "") -> Publishers:
    registry: Any = [TABLE]
    nobody: Any = SimpleNamespace(all=lambda: [])
    found = Publishers(registry, nobody, nobody, warehouse, state, environment)
    found.look()
    return found


def test_whoever_serves_the_warehouse_publishes_as_the_same(tmp_path: Path, published: list[str]) -> None:
    """A standby on another machine has another folder for its state."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    for state in ("one", "other", "one"):
        look(warehouse, tmp_path / state)
    assert len(published) == 3 and len(set(published)) == 1 and published[0]
    other = tmp_path / "another"
    other.mkdir()
    look(other, tmp_path / "one")
    assert published[3] != published[0]


def test_what_was_published_before_goes_on_as_the_same(tmp_path: Path, published: list[str]) -> None:
    state, warehouse = tmp_path / "state", tmp_path / "warehouse"
    state.mkdir()
    warehouse.mkdir()
    (state / IDENTITY).write_text("abc\n")
    look(warehouse, state)
    assert published == ["abc"]


def test_an_environment_publishes_nothing(tmp_path: Path, published: list[str]) -> None:
    table: Any = TABLE
    with pytest.raises(TerminalError, match="the environment `dev` publishes nothing"):
        look(tmp_path, tmp_path, "dev").of(table)
    assert published == [] and not (tmp_path / IDENTITY).exists()
