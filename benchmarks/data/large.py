"""The tables of `projects/incremental`: a large one of orders, and a sum by user and hour over it."""

from __future__ import annotations

import shutil

from benchmarks.data.orders import Orders
from benchmarks.in_process import feed
from benchmarks.in_process.warehouse import Warehouse, open_warehouse
from benchmarks.runner import Bench, project_files
from headrace.sources.postgres.types import column
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SourceTable
from headrace.store.schema import INSERT

ORDERS, SUMS = "dwd.orders", "dws.user_hour"
_SOURCE = (("order_id", "bigint"), ("user_id", "bigint"), ("hour", "text"), ("amount", "numeric(12,2)"))


def open_large(bench: Bench) -> Warehouse:
    """The tables of the project in the suite's directory, empty."""

    def schema(table: SourceTable) -> SourceSchema:
        columns = tuple(column(n, t) for n, t in _SOURCE)
        return SourceSchema(table, columns, ("order_id",), full_identity=True)

    return open_warehouse(
        bench.spark, bench.directory, lambda project: {s: schema(s) for s in project.sources()}
    )


def load_large(bench: Bench, rows: int) -> tuple[Warehouse, Orders]:
    """The project's tables, the large one with so many orders, unless the run says another number."""
    shape = Orders(bench.options.rows or rows)
    shutil.copytree(project_files("incremental"), bench.directory / "project")
    warehouse = open_large(bench)
    bench.tell(f"loading {shape.rows:,} orders")
    append_orders(warehouse, shape, 0, shape.rows)
    return warehouse, shape


def append_orders(warehouse: Warehouse, shape: Orders, first: int, last: int) -> None:
    """Orders with ids in `[first, last)` into the large table."""
    spark = warehouse.sessions.batch
    feed.append(spark, warehouse.table(ORDERS), shape.frame(spark, first, last), {INSERT: last - first})
