"""Everything is killed while ten tables are written, truncated and altered: at the end all is equal.

`HEADRACE_CHAOS_SEED=20261126` plays that seed again, `HEADRACE_CHAOS_RUNS=20` so many from it on, which want
`HEADRACE_LONG_MINUTES=600`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import chaos
import pytest
from running_shop import ROOT, Shop, grant

from headrace.gateway.client import GatewayClient
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.spec import load_project


def seeds() -> list[int]:
    first = int(os.environ.get("HEADRACE_CHAOS_SEED") or 4)
    return [first + n for n in range(int(os.environ.get("HEADRACE_CHAOS_RUNS") or 1))]


@pytest.fixture(scope="module", params=seeds(), ids=lambda seed: f"seed-{seed}")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def shop(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A warehouse of the ten tables, whose connector is not registered yet."""
    project = tmp_path_factory.mktemp("chaos")
    connector = json.loads((ROOT / "deploy" / "connectors" / "shop.json").read_text())
    captured = [f"public.{table}" for table in chaos.TABLES]
    connector["config"]["table.include.list"] = ",".join(captured)
    files = {"deploy/connectors/shop.json": json.dumps(connector), **chaos.layer_files()}
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with scratch_settings(project, driver_memory="1g", compaction_interval_seconds=5.0) as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["connect"])
            chaos.create_tables(settings.postgres_dsn())
            grant(settings.postgres_dsn(), settings.connectors / "shop.json")
            stack.up(only=["warehouse"])
            with GatewayClient(settings) as client:
                yield Shop(stack, client, load_project(project))
        finally:
            stack.down()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_is_equal_after_everything_was_killed(shop: Shop, seed: int) -> None:
    plan = chaos.make_plan(seed)
    print(f"HEADRACE_CHAOS_SEED={seed}")
    chaos.play(shop, plan)
    chaos.settle(shop, chaos.TABLES)
    shop.verify()
    assert not chaos.wrong_figures(shop, chaos.in_postgres())
    assert not [t for t, s in shop.status().items() if s.dead_letters]
