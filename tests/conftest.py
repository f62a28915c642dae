"""Fixtures shared by all tests. One Spark session serves a whole run."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis_settings

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from headrace.catalog import Catalog


# A run starts some thirty JVMs that live a minute or two, in which what the optimizing compiler takes of the
# processors does not come back: a sixth of them, measured on chain and Spark tests.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


# How long an example takes says how busy the machine is.
hypothesis_settings.register_profile("shared machine", deadline=None)
hypothesis_settings.load_profile("shared machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", default=os.environ.get("CI") == "true", help="run the long tests, too"
    )


@pytest.hookimpl(tryfirst=True)  # the running stack's folder sorts them again
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests, unless all are to run or one was named."""
    if config.getoption("--long") or any("::" in argument for argument in config.args):
        items[:] = in_turn(items, int(float(os.environ[BEGUN])))
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def in_turn(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    """The same tests; files of long ones alone come last, and begin at another one by this number.

    So of those that no time is left for, see `LONG_MINUTES`, each is one day's, not always the same.
    """
    ordinary = {item.path for item in items if not item.get_closest_marker("long")}
    files = list(dict.fromkeys(item.path for item in items if item.path not in ordinary))
    place = {path: 1 + (at - number) % len(files) for at, path in enumerate(files)}
    return sorted(items, key=lambda item: place.get(item.path, 0))


LONG_MINUTES = float(os.environ.get("HEADRACE_LONG_MINUTES", "27"))
"""How long after a run has begun its last long test may begin: a run of all of them shall end within 35
minutes on two cores. Those that are left out are named, and are others each time."""

BEGUN = "HEADRACE_TESTS_BEGUN"
"""When, by the clock of all processes of a run."""


FAILURE_LINES = 25
"""Of a failure's text, its end: what was raised, and where."""


class FailuresAtOnce:
    """Says what failed when it fails: a run that is killed before its end would tell nobody."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: TerminalReporter | None = self._plugins.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\n{report.nodeid} ({report.when}, {report.duration:.0f} s)", red=True)
            terminal.write_line("\n".join(report.longreprtext.splitlines()[-FAILURE_LINES:]))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[BEGUN] = str(time.time())
        if config.getoption("--long"):
            config.pluginmanager.register(FailuresAtOnce(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a long test that no time is left for, before it makes a stack for itself."""
    minutes = (time.time() - float(os.environ[BEGUN])) / 60
    if minutes > LONG_MINUTES and item.get_closest_marker("long"):
        pytest.skip(f"no time was left for it after {LONG_MINUTES:.0f} minutes (HEADRACE_LONG_MINUTES)")


APART = tuple(
    f"tests/chain/test_{name}.py"
    for name in (
        *("bench_chain", "chaos", "cluster", "containers", "demo", "object_store", "pgbench"),
        *("several_servers", "source_columns", "source_data", "source_replaced", "takeover", "tutorial"),
    )
)
"""Have a stack of their own, so either process may take them."""

STACKS = ("tests/spark/", "tests/chain/")
"""Folders whose other tests share one Spark session, or one running stack."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Each stack in one process, all else where there is time: xdist's groups do not work with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByStack(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((place for place in (*APART, *STACKS) if nodeid.startswith(place)), nodeid)

    return ByStack(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """The warehouse server's own Spark configuration, without its Spark Connect endpoint."""
    from headrace.engine.spark import aot_cache
    from headrace.engine.spark.session import build_session
    from headrace.services import runtime
    from headrace.settings import Settings

    project: Path = tmp_path_factory.mktemp("spark")
    # Tests leave 0.2 GiB behind; one run on a busy machine ended for lack of memory at 2 GiB.
    settings = Settings(project=project, data=project, driver_memory="3g")
    settings.state.mkdir()
    runtime.ensure(settings.home)
    if pytestconfig.getoption("--long"):  # as before a server starts
        aot_cache.renew(settings, print)
    session = build_session(settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def lock_order() -> Iterator[None]:
    """Fails a test in which a thread takes locks out of order."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.getMessage()}\n{record.stack_info}")

    log, listener = logging.getLogger("headrace.locks"), Listener(logging.ERROR)
    log.addHandler(listener)
    yield
    log.removeHandler(listener)
    assert not found, found[0]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """An empty catalog."""
    from headrace.catalog import Catalog

    catalog = Catalog(f"sqlite:///{tmp_path / 'state' / 'catalog.db'}")
    yield catalog
    catalog.close()
