"""One native stack for the whole session: PostgreSQL, Kafka and Connect on free ports, data of its own.

A test that needs the warehouse server or Dagster starts it: `stack.up(only=["warehouse"])`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chain_support import free_ports

from headrace.services import postgres
from headrace.services.stack import Stack
from headrace.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.chain)


@pytest.fixture(scope="session")
def stack_settings() -> Iterator[Settings]:
    # Not pytest's own folder: only its owner may enter that, and PostgreSQL runs as another user than root.
    data = Path(tempfile.mkdtemp(prefix="headrace-chain-"))
    data.chmod(0o711)
    names = [name for name in Settings.model_fields if name.endswith("_port")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    settings = Settings(project=ROOT, data=data, postgres_url=None, **ports)
    yield settings
    postgres.remove(settings)
    shutil.rmtree(data)


@pytest.fixture(scope="session")
def stack(stack_settings: Settings) -> Iterator[Stack]:
    """PostgreSQL, Kafka and Connect, healthy; stopped at the end."""
    stack = Stack(stack_settings)
    try:
        stack.up(only=["connect"])
        yield stack
    finally:
        stack.down()
