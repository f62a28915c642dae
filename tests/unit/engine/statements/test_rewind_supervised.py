"""A rewind beside the supervisor: its tables rest, and none of them joins its flow while it goes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.catalog import Catalog
from headrace.engine.statements.rewind_supervised import supervised
from headrace.engine.supervisor.admission import Admission
from headrace.engine.supervisor.failures import Failures
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.table import Registry
from headrace.errors import TransientError
from headrace.spec.model import RefreshMode


class Flow:
    """Of one table, which is active."""

    def __init__(self, table: Any) -> None:
        self.names, self.active, self.lock = {table.name}, {table.name}, threading.RLock()

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self.lock:
            yield

    def leave(self, name: Any) -> None:
        with self.lock:
            self.active.discard(name)

    def rejoin(self, flow: Flow, table: Any) -> None:
        self.active.add(table.name)


@pytest.fixture
def table(tmp_path: Path, catalog: Catalog) -> Any:
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id")
    catalog.register(spec, RefreshMode.CONTINUOUS)
    store = SimpleNamespace(version=3, commit=SimpleNamespace(template="text", complete_through=""))
    alone = SimpleNamespace(upstreams=())
    return SimpleNamespace(
        spec=alone,
        name=spec.name,
        store=store,
        template="text",
        mode=RefreshMode.CONTINUOUS,
        freshness=timedelta(1),
        lacks=None,
    )


@pytest.fixture
def supervisor(table: Any, catalog: Catalog) -> Callable[[list[Flow]], Supervisor]:
    def make(flows: list[Flow]) -> Supervisor:
        nothing = cast("Any", None)
        arrangement = cast("Any", SimpleNamespace(flows=flows, scheduled=[] if flows else [table]))
        catch_up = cast("Any", flows[0] if flows else None)
        registry = Registry({table.name: table})
        return Supervisor(
            arrangement,
            registry,
            cast("Any", SimpleNamespace(scheduler="warehouse")),
            catalog,
            nothing,
            cast("Any", SimpleNamespace(renew_if_old=None)),
            catch_up,
            Admission(registry, catalog),
            Failures(catalog),
            advance=nothing,
            held=nothing,
            sources=nothing,
        )

    return make


def bounds(topics: object) -> dict[str, dict[int, tuple[int, int]]]:
    return {}


TOPICS = cast("Any", SimpleNamespace(bounds=bounds))


def test_a_table_of_a_flow_rests_until_it_is_resumed(
    table: Any, catalog: Catalog, supervisor: Callable[[list[Flow]], Supervisor]
) -> None:
    flow = Flow(table)
    work = supervised(supervisor([flow]), TOPICS, "run")
    with pytest.raises(TransientError, match="was resumed meanwhile"), work.paused(table):
        pass
    assert work.suspend(table)
    assert not flow.active
    assert (catalog.desired(table.name), catalog.row(table.name).state) == ("SUSPENDED", "SUSPENDED")
    assert not work.suspend(table)
    with work.paused(table):
        held: list[bool] = []
        other = threading.Thread(target=lambda: held.append(not flow.lock.acquire(blocking=False)))
        other.start()
        other.join()
    assert held == [True]
    assert flow.lock.acquire(blocking=False)
    work.resume(table)
    assert (catalog.desired(table.name), catalog.row(table.name).state) == ("RUNNING", "RUNNING")
    with pytest.raises(TransientError), work.paused(table):
        pass


def test_so_does_one_that_is_refreshed_on_a_schedule(
    table: Any, catalog: Catalog, supervisor: Callable[[list[Flow]], Supervisor]
) -> None:
    work = supervised(supervisor([]), TOPICS, "run")
    with pytest.raises(TransientError), work.paused(table):
        pass
    assert work.suspend(table)
    with work.paused(table):
        assert catalog.desired(table.name) == "SUSPENDED"
