"""Bulk snapshots in the real stack: exact while writers go on, and started again after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chain_support import eventually, reader, services_of
from deltalake import DeltaTable
from running_shop import ROOT, Shop, copy_project

from headrace.demo.shop import create_shop
from headrace.errors import HeadraceError
from headrace.gateway.client import GatewayClient
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.sources.connect import ConnectClient
from headrace.sources.postgres.bulk.record import load_record
from headrace.sources.postgres.bulk.staging import stage
from headrace.sources.postgres.position import position
from headrace.sources.postgres.tables import describe
from headrace.sources.records import records
from headrace.sources.stream.broker import Broker
from headrace.spec import load_project
from headrace.spec.connector import load_connector
from headrace.spec.model import SourceTable
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
        **services_of(services),
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


TYPES = pa.schema(
    {
        "id": pa.int64(), "small": pa.int16(), "flag": pa.bool_(), "ratio": pa.float64(),
        "amount": pa.decimal128(12, 2), "note": pa.string(), "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"), "day": pa.date32(), "raw": pa.binary(), "code": pa.string(),
        "unique_id": pa.string(), "document": pa.string(),
    }
)  # fmt: skip
"""Of the columns of `EXACT`, as Spark has them; a test has no Spark."""
EXACT = """
id bigint PRIMARY KEY, small smallint, flag boolean, ratio double precision, amount numeric(12,2), note text,
at timestamptz, local timestamp, day date, raw bytea, code varchar(5), unique_id uuid, document jsonb
"""
VALUES = """
SELECT n, n % 7, n % 2 = 0, n / 3.0, n * 1.01, repeat('ä', n % 5), now() + n * interval '1 hour', now(),
  current_date - n, decode('00ff', 'hex'), 'c' || n, gen_random_uuid(), jsonb_build_object('n', n)
FROM generate_series(1, 500) n
UNION ALL SELECT -n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM generate_series(1, 3) n
"""


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (None, ""),
        (("spans", "interval", pa.string()), ", interval '1 day'"),
        (("price", "money", pa.string()), ", 12.5::money"),
    ],
    ids=["by binary copy", "an interval, row by row", "money, row by row"],
)
def test_a_position_is_staged_exactly_whatever_its_columns_are(
    stack: Stack,
    tmp_path: Path,
    more: tuple[str, str, pa.DataType] | None,
    value: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dsn = stack.settings.postgres_dsn()
    table = SourceTable("shop", "staging", "typed")
    shop = load_connector(ROOT / "deploy" / "connectors" / "shop.json")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA staging")
        try:
            column = f", {more[0]} {more[1]}" if more else ""
            connection.execute(f"CREATE TABLE staging.typed ({EXACT}{column})")
            connection.execute(f"INSERT INTO staging.typed SELECT *{value} FROM ({VALUES}) v")
            source = describe(dsn, [table])[table]
            arrow = TYPES.append(pa.field(more[0], more[2])) if more else TYPES
            assert source.names == tuple(arrow.names)
            with caplog.at_level("DEBUG"), position(dsn, shop, {"staging"}, "staged") as at:
                connection.execute("DELETE FROM staging.typed WHERE id < 400")  # after the position
                stage(at, source, arrow, tmp_path / "rows.parquet")
                row_by_row = pa.concat_tables(at.tables(source, arrow))
        finally:
            connection.execute("DROP SCHEMA staging CASCADE")
    staged = pq.read_table(tmp_path / "rows.parquet")
    assert staged.schema.equals(arrow) and staged.num_rows == 503
    assert staged.sort_by("id").equals(row_by_row.sort_by("id"))
    assert ("row by row" in caplog.text) == bool(more)


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
                unfinished = load_record(records(shop.settings), "shop")
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
        with reader(Broker.of(shop.settings), "shop.public.orders") as read:
            events = eventually("events", lambda: len(e := read()) > 20 and e)
        assert {event.op for event in events} - {None} <= {"c", "u", "d"}
        config = httpx.get(f"{shop.settings.connect_rest}/connectors/shop/config", trust_env=False).json()
        assert config["snapshot.mode"] == "no_data"
        done = load_record(records(shop.settings), "shop")
        assert done is not None and done.state == "STREAMING"

        shop.stack.register_connectors()  # as `headrace up` does every time
        for table, version in versions_loaded(shop).items():
            log = DeltaTable(str(shop.path(table, "changelog"))).to_pyarrow_table().to_pylist()
            first = [row for row in log if row[VERSION] == 1]
            assert {(row[KIND], row[ORIGIN]) for row in first} == {("+I", "stream")}
            assert len({row["_seq"] for row in first}) == 1, (table, version)
