"""Who takes part in a comparison: headrace and its peers, each over its own events of the same source."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from headrace.errors import TerminalError, did_you_mean
from headrace.sources.stream.broker import Broker

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.settings import Settings

Tell = Callable[[str], None]

STG, DWD, DWS = TABLES = ("stg_orders", "dwd_orders", "dws_user_hour")
"""The chain that every contender keeps, with these columns:

- `stg_orders(order_id, user_id, product_id, amount, status, created_at, updated_at)`, key `order_id`
- `dwd_orders(order_id, user_id, amount, logdate)`: orders with `amount > 1`; `logdate` is `created_at` in UTC
  as `yyyyMMddHH`
- `dws_user_hour(user_id, logdate, cnt, amt)`: their number and sum by user and hour
"""


@dataclass(frozen=True)
class Source:
    """Where a contender finds its input.

    Args:
        dsn: the database with the table `orders`.
        broker: the Kafka broker, which wants a login.
        topics: this contender's topics, one a captured table, there and empty at first, one partition each:
            Debezium's events as JSON without schemas, decimals as strings.
    """

    dsn: str
    broker: Broker
    topics: Sequence[str]


@dataclass(frozen=True)
class Commit:
    """One commit of a table that changed rows.

    Args:
        at: epoch seconds from which a reader sees it: when the file that makes it visible was written.
        rows: how many change rows it has, both images of an update counted where both are written.
        images: the rows after the change, with the table's columns. Reads files.
    """

    at: float
    rows: int
    images: Callable[[], pa.Table]


class Contender(Protocol):
    """One system that keeps a chain of tables, these three or those of the shop."""

    name: str
    settle: float
    """Seconds without a commit after which it has nothing left to do: longer than its commits are apart."""

    def install(self, home: Path, tell: Tell) -> None:
        """Fetch what it needs into `home`, which is its own, unless it is there."""

    def start(self, source: Source, directory: Path) -> None:
        """Run all tables from the topics' first event on; return when it waits for events.

        Args:
            directory: empty, for its tables, state and logs.
        """

    def commits(self, table: str) -> Sequence[Commit]:
        """All commits with changes so far, in order."""

    def rows(self, table: str) -> pa.Table:
        """The table's present content."""

    def roots(self) -> Sequence[int]:
        """Process ids of what it started, without PostgreSQL, Kafka and Connect, which all share."""

    def check(self) -> None:
        """Raise TerminalError where something of it has ended by itself."""

    def stop(self) -> None:
        """End every process it started; called also where `start` failed."""


PEERS = {
    "flink_paimon": "Flink SQL with Paimon, checkpoints of a second",
    "flink_paimon_250ms": "Flink SQL with Paimon, checkpoints of a quarter of a second",
    "spark_merge": "Spark Structured Streaming, a MERGE a table",
    "dbt_incremental": "Spark SQL, incremental models as of dbt, over and over",
    "full_batch": "Spark SQL, all tables anew over and over",
    "declarative": "Spark Declarative Pipelines",
}
"""Peers by name: a module `benchmarks/peers/NAME` each, with `contender(settings) -> Contender`, and
`shop_contender` where it can keep the demo's tables, too."""


def peer(name: str, settings: Settings) -> Contender:
    """The peer of that name. Raises TerminalError where there is none."""
    return cast("Contender", _module(name).contender(settings))


def shop_peer(name: str, settings: Settings) -> Contender:
    """The peer of that name over the demo's tables. Raises TerminalError where it has none such."""
    module = _module(name)
    if not hasattr(module, "shop_contender"):
        raise TerminalError(f"the peer `{name}` keeps three tables alone, not those of the demo")
    return cast("Contender", module.shop_contender(settings))


def _module(name: str) -> ModuleType:
    if name not in PEERS:
        raise TerminalError(f"there is no peer `{name}`; {did_you_mean(name, PEERS)}")
    return importlib.import_module(f"benchmarks.peers.{name}")
