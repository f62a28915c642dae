"""One native stack for the whole session: PostgreSQL, Kafka and Connect on free ports, data of its own.

A test that needs the warehouse server or Dagster starts it: `stack.up(only=["warehouse"])`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_shop import Shop, start_shop

from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.chain)


@pytest.fixture(scope="session")
def stack_settings() -> Iterator[Settings]:
    with scratch_settings(ROOT) as settings:
        yield settings


@pytest.fixture(scope="session")
def stack(stack_settings: Settings) -> Iterator[Stack]:
    """PostgreSQL, Kafka and Connect, healthy; stopped at the end."""
    stack = Stack(stack_settings)
    try:
        stack.up(only=["connect"])
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="session")
def running_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with start_shop(tmp_path_factory.mktemp("project")) as shop:
        yield shop


@pytest.fixture
def shop(running_shop: Shop) -> Shop:
    """The running shop, every table of it running."""
    running_shop.wait_running()
    return running_shop
