"""Bulk snapshots in the real stack: exact while writers go on, and started again after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from chain_support import eventually, reader
from deltalake import DeltaTable
from running_shop import Shop, copy_project

from headrace.demo.shop import create_shop
from headrace.errors import HeadraceError
from headrace.gateway.client import GatewayClient
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.sources.bulk.record import load_record
from headrace.sources.connect import ConnectClient
from headrace.spec import load_project
from headrace.store.record.commits import latest
from headrace.store.schema import KIND, ORIGIN, VERSION

pytestmark = pytest.mark.long

STG = ("stg.users", "stg.products", "stg.orders", "stg.order_items", "stg.page_words")


@contextmanager
def new_shop(project: Path, services: Settings) -> Iterator[Shop]:
    """The stg tables of a shop whose connector was never registered, with a warehouse server of their own.

    `snapshot` is `bulk`.

    Args:
        services: of the stack whose PostgreSQL, Kafka and Connect it has.
    """
    copy_project(project, layers="stg")
    create_shop(services.postgres_dsn(), seed=11, orders=2_000, users=60, products=25, words=400)
    with scratch_settings(
        project,
        snapshot="bulk",
        driver_memory="1g",
        postgres_url=services.postgres_dsn(),
        kafka_bootstrap_servers=services.kafka_bootstrap,
        connect_url=services.connect_rest,
    ) as settings:
        stack = Stack(settings)
        try:
            with GatewayClient(settings) as client:
                yield Shop(stack, client, load_project(project))
        finally:
            stack.down()
            with ConnectClient(services.connect_rest) as connect:
                connect.delete("shop")


def versions_loaded(shop: Shop) -> dict[str, int]:
    found = {table: latest(shop.path(table, "changelog")) for table in STG}
    return {table: commit.loaded for table, (_, commit) in found.items() if commit}  # type: ignore[misc]


@pytest.mark.timeout(600)
def test_killed_in_the_middle_it_starts_again_and_is_handed_over_exactly(
    tmp_path: Path, stack_to_kill: Stack
) -> None:
    """One shop for both: writers insert, update and delete all the time."""
    with new_shop(tmp_path, stack_to_kill.settings) as shop:
        with shop.load(seed=22, rate=100) as load:
            for failpoint in ("bulk.copied=kill", "bulk.committed=kill@2"):
                shop.arm(failpoint)
                with pytest.raises(HeadraceError, match="headrace up"):
                    shop.stack.register_connectors()
                unfinished = load_record(shop.settings.state, "shop")
                assert unfinished is not None and unfinished.state == "LOADING"
                with psycopg.connect(shop.dsn) as connection:
                    slots = connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
                assert slots == [("headrace_shop",)]
            assert sorted(versions_loaded(shop).values()) == [0, 0, 0, 1, 1]

            told: list[str] = []
            assert shop.stack.register_connectors(on_progress=lambda name, text: told.append(text)) == [
                "shop"
            ]
            before = load.changes
            eventually("the load goes on", lambda: load.changes >= before + 200)
            load.raise_if_failed()
        shop.wait_caught_up()
        shop.verify()
        shop.check_changelogs()

        assert any("interrupted starts again" in text for text in told)
        assert any("loaded " in text and "rows of `shop`" in text for text in told)
        # The two tables that were committed before the kill got the difference.
        assert sorted(versions_loaded(shop).values()) == [1, 1, 1, 2, 2]
        with reader(shop.settings.kafka_bootstrap, "shop.public.orders") as read:
            events = eventually("events", lambda: len(e := read()) > 20 and e)
        assert {event.op for event in events} - {None} <= {"c", "u", "d"}
        config = httpx.get(f"{shop.settings.connect_rest}/connectors/shop/config", trust_env=False).json()
        assert config["snapshot.mode"] == "no_data"
        done = load_record(shop.settings.state, "shop")
        assert done is not None and done.state == "STREAMING"

        shop.stack.register_connectors()  # as `headrace up` does every time
        for table, version in versions_loaded(shop).items():
            log = DeltaTable(str(shop.path(table, "changelog"))).to_pyarrow_table().to_pylist()
            first = [row for row in log if row[VERSION] == 1]
            assert {(row[KIND], row[ORIGIN]) for row in first} == {("+I", "stream")}
            assert len({row["_seq"] for row in first}) == 1, (table, version)
