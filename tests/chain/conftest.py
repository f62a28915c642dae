"""One native stack for the whole session, on free ports, with data of its own, and one shop in it.

What is killed, and must not take others along, is in a second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_shop import Shop, copy_project, start_shop

from headrace.engine.spark import failpoints
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings

HERE = Path(__file__).parent
SHARED = pytest.StashKey[Stack]()
"""The session's stack, while it is up."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the session's stack come first, so that it need not idle beside all others."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.chain)
    items.sort(key=lambda item: item.path.is_relative_to(HERE) and not _shares(item))  # keeps their order


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    last = _shares(item) and nextitem is not None and not _shares(nextitem)
    if last and (stack := item.config.stash.get(SHARED, None)) is not None:
        stack.down()


def _shares(item: pytest.Item) -> bool:
    """Whether the test uses the session's stack; `services` asks for it once it knows that it is meant."""
    return not {"stack", "services"}.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session", autouse=True)
def armed_by_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every warehouse server looks there whether a test wants it dead; see `Shop.arm`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, str(tmp_path_factory.mktemp("failpoints") / "armed"))
        yield


@pytest.fixture(scope="session")
def stack_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    project = tmp_path_factory.mktemp("project")
    copy_project(project)
    served = {"spark_connect": True, "flight_sql": True}
    with scratch_settings(project, compaction_interval_seconds=5.0, driver_memory="1g", **served) as settings:
        yield settings


@pytest.fixture(scope="session")
def stack(stack_settings: Settings, pytestconfig: pytest.Config) -> Iterator[Stack]:
    """PostgreSQL, Kafka and Connect, healthy; stopped after the last test on it."""
    stack = pytestconfig.stash[SHARED] = Stack(stack_settings)
    try:
        stack.up(only=["connect"])
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="session")
def stack_to_kill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Another PostgreSQL, Kafka and Connect; they may be killed, but run at a test's end."""
    with scratch_settings(tmp_path_factory.mktemp("project")) as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["connect"])
            yield stack
        finally:
            stack.down()


@pytest.fixture(scope="session")
def running_shop(stack: Stack) -> Iterator[Shop]:
    with start_shop(stack) as shop:
        yield shop


@pytest.fixture
def shop(running_shop: Shop) -> Iterator[Shop]:
    """The running shop, every table of it running, also after a test that failed."""
    running_shop.wait_running()
    yield running_shop
    running_shop.restore()
