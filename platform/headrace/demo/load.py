"""A seeded load on the shop: so many changes a second, in transactions, from a thread of its own.

Run by hand: `python -m headrace.demo.load --project . --rate 40 --seed 1 --seconds 60`.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg

from headrace.demo.background import Background
from headrace.demo.changes import Shop, choose, perform
from headrace.demo.shop import PROBE_ORDER
from headrace.errors import HeadraceError, TerminalError

MADE_UP = 2.0
"""Seconds that batches may be late and are made up for, so that the rate is what was asked for; what comes
later than that is left out."""


class LoadGenerator(Background):
    """Changes rows of the shop until stopped. A context manager; `stop()` raises what went wrong inside.

    Args:
        dsn: the shop's database.
        seed: decides which changes happen in which order, whatever their timing.
        rate: row changes a second.
        interval: seconds between batches; each batch has `rate * interval` changes.
        probe: also set the probe order's amount to the next tick at the end of every batch.
    """

    def __init__(
        self, dsn: str, *, seed: int, rate: float = 40.0, interval: float = 0.5, probe: bool = False
    ) -> None:
        if rate <= 0 or interval <= 0:
            raise TerminalError(f"a load needs a positive rate and interval, not `{rate=}`, `{interval=}`")
        super().__init__("shop-load", "the load on the shop")
        self.done: Counter[str] = Counter()
        self.changes = 0
        self.seconds = 0.0
        self._dsn, self._seed, self._rate, self._interval, self._probe = dsn, seed, rate, interval, probe
        self._ticks: list[tuple[int, float]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction under way. Raises what the load failed with."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.raise_if_failed()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread without asking it to stop: it ends by itself only on an error."""
        self._thread.join(timeout)

    @property
    def ticks(self) -> list[tuple[int, float]]:
        """(tick, monotonic time at which its commit began) so far. The time flatters nobody: it is before
        the commit, so a freshness taken from it includes the commit."""
        return list(self._ticks)

    @property
    def last_tick(self) -> int | None:
        return self._ticks[-1][0] if self._ticks else None

    def _work(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, application_name="shop load") as connection:
            connection.execute("SET search_path = public")
            self._loop(Shop.read(connection, self._seed))

    def _loop(self, shop: Shop) -> None:
        tick = _probe_amount(shop.connection) if self._probe else 0
        started = time.monotonic()
        due = started
        while not self._stopping.is_set():
            self._batch(shop)
            if self._probe:
                tick += 1
                self._ticks.append((tick, _set_probe(shop.connection, tick)))
            due = max(due + self._interval, time.monotonic() - MADE_UP)
            self.seconds = time.monotonic() - started
            self._stopping.wait(due - time.monotonic())
        self.seconds = time.monotonic() - started

    def _batch(self, shop: Shop) -> None:
        changed = 0
        while changed < self._rate * self._interval and not self._stopping.is_set():
            kind = choose(shop)
            self.done[kind] += 1
            changed += max(
                perform(shop, kind), 1
            )  # a miss (another writer took the row) counts, or it could loop forever
        self.changes += changed


def _probe_amount(connection: psycopg.Connection) -> int:
    """Ticks go on from the last run's, so that they grow over the life of a shop."""
    row = connection.execute("SELECT amount FROM orders WHERE order_id = %s", [PROBE_ORDER]).fetchone()
    if row is None:
        raise TerminalError("the shop has no probe order; recreate the shop with `reset=True`")
    return int(row[0])


def _set_probe(connection: psycopg.Connection, tick: int) -> float:
    with connection.transaction():
        connection.execute(
            "UPDATE orders SET amount = %s, updated_at = now() WHERE order_id = %s", (tick, PROBE_ORDER)
        )
        return time.monotonic()


def main(arguments: list[str] | None = None) -> int:
    """Put a load on a running project's shop until the seconds are over or Ctrl-C."""
    from headrace.settings import Settings

    parser = argparse.ArgumentParser(prog="python -m headrace.demo.load", description=main.__doc__)
    parser.add_argument("--project", type=Path, default=Path(), help="project directory (default: here)")
    parser.add_argument("--seed", type=int, default=1, help="decides the sequence of changes")
    parser.add_argument("--rate", type=float, default=40.0, help="row changes a second")
    parser.add_argument("--seconds", type=float, default=None, help="how long (default: until Ctrl-C)")
    options = parser.parse_args(arguments)
    try:
        load = LoadGenerator(
            Settings.load(options.project).postgres_dsn(), seed=options.seed, rate=options.rate
        )
        load.start()
        with suppress(KeyboardInterrupt):
            load.join(options.seconds)
        load.stop()
    except HeadraceError as error:
        print(f"error: {error}\n  run `headrace up` first, and `headrace status` to see what is running")
        return 1
    kinds = ", ".join(f"{kind} {count}" for kind, count in load.done.most_common())
    print(f"{load.changes} row changes in {load.seconds:.1f} s: {kinds}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
