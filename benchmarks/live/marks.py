"""Marks: a numbered change of a row of every table of the shop, which every table above shows by its number.

They go to a user, a product, an order and an hour of their own, which no load touches, so each table has rows
that tell which mark is the newest that it holds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from headrace.demo.background import Background

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.live.contender import Commit

ID = -1
"""Of the user, the product, the order and its item. A load looks at ids above zero alone."""

INTERVAL = 0.5
ROWS = 5
"""Rows that a mark changes."""

DAYS_BACK = 20
"""No order of the shop lies there, and no late one comes: neither do hours a week or 52 weeks from it."""

_CREATE: Sequence[LiteralString] = (
    "INSERT INTO users VALUES (%(id)s, 'Mark', 'mark@shop.example', 'mark 0', %(at)s, %(at)s)",
    "INSERT INTO products VALUES (%(id)s, 'mark 0', 'marks', 1, %(at)s, %(at)s)",
    "INSERT INTO orders VALUES (%(id)s, %(id)s, 'paid', 0, %(at)s, %(at)s)",
    "INSERT INTO order_items VALUES (%(id)s, %(id)s, %(id)s, 0, 1, %(at)s)",
)
_MARK: Sequence[LiteralString] = (
    "UPDATE users SET city = 'mark ' || %(number)s WHERE user_id = %(id)s",
    "UPDATE products SET name = 'mark ' || %(number)s WHERE product_id = %(id)s",
    "UPDATE orders SET amount = %(number)s WHERE order_id = %(id)s",
    "UPDATE order_items SET quantity = %(number)s WHERE item_id = %(id)s",
    "INSERT INTO page_words VALUES (-%(number)s, %(id)s, '/mark', 'mark', %(at)s)",
)


@dataclass(frozen=True)
class Shown:
    """How a table shows the newest mark.

    Args:
        column: the column of which `number` makes a mark's number.
        where: columns and values of the rows that show it.
    """

    column: str
    number: Callable[[Any], int]
    where: Mapping[str, object]


def _named(value: str) -> int:
    return int(value.removeprefix("mark "))


def shown(hour: datetime) -> dict[str, Shown]:
    """Every table of the shop's layers.

    Args:
        hour: of the marks.
    """
    label = hour.strftime("%Y%m%d%H")
    words = Shown("word_id", lambda word: -word, {"user_id": ID})
    in_hour = {"logdate": label}
    return {
        "stg.users": Shown("city", _named, {"user_id": ID}),
        "stg.products": Shown("name", _named, {"product_id": ID}),
        "stg.orders": Shown("amount", int, {"order_id": ID}),
        "stg.order_items": Shown("quantity", int, {"item_id": ID}),
        "stg.page_words": words,
        "dwd.orders": Shown("amount", int, {"order_id": ID}),
        "dwd.order_items": Shown("quantity", int, {"item_id": ID}),
        "dwd.partition_word_count": words,
        "dws.user_hour": Shown("amount", int, {"user_id": ID}),
        "dws.gmv_hour": Shown("gmv", int, in_hour),
        "dws.gmv_day": Shown("gmv", int, {"day": label[:8]}),
        "dws.gmv_compared": Shown("gmv", int, in_hour),
        "dws.top_products": Shown("quantity", int, in_hour),
        "dws.partition_word_count": Shown("cnt", int, {"user_id": ID}),
    }


def newest(rows: pa.Table, how: Shown) -> int | None:
    """The newest mark that rows of a table show, or None where they show none."""
    import pyarrow.compute as pc

    for column, value in how.where.items():
        rows = rows.filter(pc.equal(rows.column(column), value))
    return max(map(how.number, rows.column(how.column).to_pylist()), default=None)


def delays_of(marks: Sequence[tuple[int, float]], commits: Iterable[Commit], how: Shown) -> dict[int, float]:
    """Seconds from each mark's commit to the first commit of the table that shows it or a newer one.

    Args:
        marks: (number, epoch seconds of its commit), in order.
        commits: of the table, in order; those before the first mark are skipped.
    """
    waiting = list(reversed(marks))
    found: dict[int, float] = {}
    for commit in commits:
        if not waiting or commit.at < waiting[-1][1]:
            continue
        visible = newest(commit.images(), how)
        while visible is not None and waiting and waiting[-1][0] <= visible:
            number, at = waiting.pop()
            found[number] = commit.at - at
    return found


class Marks(Background):
    """Makes marks, one at a random moment of every half second, until left. A context manager.

    A steady beat keeps step with a system's own, and one run is then lucky where another is not.
    """

    def __init__(self, dsn: str) -> None:
        super().__init__("marks", "the making of marks")
        self._connection = psycopg.connect(dsn, application_name="marks")
        self._made: list[tuple[int, float]] = []
        self.hour, self._last = self._prepare()

    @property
    def made(self) -> list[tuple[int, float]]:
        """(number, epoch seconds at which its commit was acknowledged) so far, in order."""
        return list(self._made)

    def _prepare(self) -> tuple[datetime, int]:
        """The marks' hour and the newest number; their rows are made where there are none."""
        with self._connection.transaction():
            self._connection.execute("SET search_path = public")
            found = self._connection.execute(
                "SELECT created_at, amount FROM orders WHERE order_id = %s", [ID]
            ).fetchone()
            if found is not None:
                return found[0].astimezone(UTC), int(found[1])
            at = (datetime.now(UTC) - timedelta(days=DAYS_BACK)).replace(minute=30, second=0, microsecond=0)
            for statement in _CREATE:
                self._connection.execute(statement, {"id": ID, "at": at})
            return at, 0

    def _work(self) -> None:
        chance = random.Random(self._last)
        begun, turn = time.monotonic(), 0
        with self._connection:
            while not self._stopping.wait(begun + (turn + chance.random()) * INTERVAL - time.monotonic()):
                turn = max(turn + 1, int((time.monotonic() - begun) / INTERVAL))
                self._make(self._last + 1)

    def _make(self, number: int) -> None:
        with self._connection.transaction():
            for statement in _MARK:
                self._connection.execute(statement, {"id": ID, "number": number, "at": self.hour})
        self._last = number
        self._made.append((number, time.time()))
