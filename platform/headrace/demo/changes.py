"""The kinds of change a shop's day consists of. Each is one transaction over one or more tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg

from headrace.demo.shop import PROBE_ORDER

STATUSES = ("created", "paid", "shipped", "delivered", "cancelled", " paid ", "SHIPPED", "Delivered  ")
WORDS = ("river", "mill", "wheel", "stone", "flour", "sluice", "gate", "pond", "race", "SACK", "", "   ")
CITIES = ("Oslo", "Lima", "Pune", "Kyoto", "Cork", "Graz", "Turku", "Split", None)


@dataclass
class Shop:
    """What a generator knows of the database, so that its choices follow from its seed alone."""

    connection: psycopg.Connection
    random: random.Random
    orders: list[int] = field(default_factory=list)  # oldest first
    words: list[int] = field(default_factory=list)
    users: int = 0
    products: int = 0

    @classmethod
    def read(cls, connection: psycopg.Connection, seed: int) -> Shop:
        """Look once at what is there. Raises nothing on an empty shop."""

        def ids(query: bytes) -> list[int]:
            return [i for (i,) in connection.execute(query)]

        # What has no number above the probe's belongs to those who measure.
        orders = ids(b"SELECT order_id FROM orders WHERE order_id > %d ORDER BY order_id" % PROBE_ORDER)
        words = ids(b"SELECT word_id FROM page_words WHERE word_id > 0 ORDER BY word_id")
        (users,), (products,) = connection.execute(
            "SELECT max(user_id) FROM users UNION ALL SELECT max(product_id) FROM products"
        )
        return cls(connection, random.Random(seed), orders, words, users, products)

    def execute(self, statement: LiteralString, *values: object) -> int:
        """Rows that the statement changed."""
        return self.connection.execute(statement, values).rowcount

    def position(self, ids: list[int]) -> int:
        """An index into `ids`, mostly a recent one: that is what changes in a shop."""
        return len(ids) - 1 - int(len(ids) * self.random.random() ** 4)

    def order(self) -> int:
        return self.orders[self.position(self.orders)]

    def user(self) -> int:
        return self.random.randint(1, self.users)

    def amount(self, low: int, high: int) -> str:
        cents = self.random.randint(low * 100, high * 100)
        return f"{cents // 100}.{cents % 100:02d}"


def insert_order(shop: Shop, age: str = "0 seconds") -> int:
    """An order and its items, in one transaction over two tables."""
    lines = [
        (shop.random.randint(1, shop.products), shop.random.randint(1, 4), shop.amount(1, 200))
        for _ in range(shop.random.choice((1, 1, 2, 2, 3)))
    ]
    status, user = shop.random.choice(STATUSES[:2]), shop.user()
    row = shop.connection.execute(
        "INSERT INTO orders (user_id, status, amount, created_at, updated_at)"
        " VALUES (%s, %s, 0, now() - %s::interval, now()) RETURNING order_id",
        (user, status, age),
    ).fetchone()
    assert row is not None
    with shop.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO order_items (order_id, product_id, quantity, price, created_at)"
            " SELECT order_id, %s, %s, %s, created_at FROM orders WHERE order_id = %s",
            [(*line, row[0]) for line in lines],
        )
    # The same row twice in one transaction: both changes are in the log, the second must win.
    shop.connection.execute(
        "UPDATE orders SET amount = (SELECT sum(quantity * price) FROM order_items WHERE order_id = %(id)s)"
        " WHERE order_id = %(id)s",
        {"id": row[0]},
    )
    shop.orders.append(row[0])
    return 2 + len(lines)


def insert_late_order(shop: Shop) -> int:
    """An order that arrives hours or days after its hour."""
    return insert_order(shop, age=f"{shop.random.randint(2 * 3600, 6 * 86400)} seconds")


def update_status(shop: Shop) -> int:
    order, status = shop.order(), shop.random.choice(STATUSES)
    return shop.execute(
        "UPDATE orders SET status = %s, updated_at = now() WHERE order_id = %s", status, order
    )


def update_amount(shop: Shop) -> int:
    order = shop.order()
    amount = shop.random.choice(("0", "-1.00")) if shop.random.random() < 0.05 else shop.amount(1, 900)
    return shop.execute(
        "UPDATE orders SET amount = %s, updated_at = now() WHERE order_id = %s", amount, order
    )


def update_item(shop: Shop) -> int:
    order, quantity = shop.order(), shop.random.randint(1, 9)
    return shop.execute("UPDATE order_items SET quantity = %s WHERE order_id = %s", quantity, order)


def change_order_key(shop: Shop) -> int:
    """A new primary key for an order; its items follow by the foreign key's cascade."""
    order = shop.orders.pop(shop.position(shop.orders))
    items = shop.connection.execute(
        "SELECT count(*) FROM order_items WHERE order_id = %s", [order]
    ).fetchone()
    moved = shop.connection.execute(
        "UPDATE orders SET order_id = nextval(pg_get_serial_sequence('orders', 'order_id')),"
        " updated_at = now() WHERE order_id = %s RETURNING order_id",
        [order],
    ).fetchone()
    if moved is None or items is None:
        return 0
    shop.orders.append(moved[0])
    return 1 + int(items[0])


def delete_order(shop: Shop) -> int:
    order = shop.orders.pop(shop.position(shop.orders))
    items = shop.execute("DELETE FROM order_items WHERE order_id = %s", order)
    return items + shop.execute("DELETE FROM orders WHERE order_id = %s", order)


def insert_word(shop: Shop) -> int:
    word, page = shop.random.choice(WORDS), f"/page/{shop.random.randrange(40)}"
    row = shop.connection.execute(
        "INSERT INTO page_words (user_id, page, word, created_at)"
        " VALUES (%s, %s, %s, now()) RETURNING word_id",
        (shop.user(), page, word),
    ).fetchone()
    assert row is not None
    shop.words.append(row[0])
    return 1


def delete_word(shop: Shop) -> int:
    word = shop.words.pop(shop.position(shop.words))
    return shop.execute("DELETE FROM page_words WHERE word_id = %s", word)


def update_user(shop: Shop) -> int:
    city, user = shop.random.choice(CITIES), shop.user()
    return shop.execute("UPDATE users SET city = %s, updated_at = now() WHERE user_id = %s", city, user)


def update_product(shop: Shop) -> int:
    """Touches every order item of the product: the widest change of the shop."""
    product, price = shop.random.randint(1, shop.products), shop.amount(1, 200)
    return shop.execute(
        "UPDATE products SET price = %s, updated_at = now() WHERE product_id = %s", price, product
    )


Change = Callable[[Shop], int]

# How often, relative to each other.
WEIGHTS: dict[str, tuple[Change, float]] = {
    "insert order": (insert_order, 24),
    "insert late order": (insert_late_order, 4),
    "update status": (update_status, 30),
    "update amount": (update_amount, 14),
    "update item": (update_item, 4),
    "change order key": (change_order_key, 2),
    "delete order": (delete_order, 5),
    "insert word": (insert_word, 12),
    "delete word": (delete_word, 4),
    "update user": (update_user, 1),
    "update product": (update_product, 0.2),
}
KINDS = tuple(WEIGHTS)


def choose(shop: Shop) -> str:
    """The next kind of change; deletes pause while there is little left to delete."""
    weights = [weight for _, weight in WEIGHTS.values()]
    kind = shop.random.choices(KINDS, weights)[0]
    if len(shop.orders) < 10 and kind not in ("insert word", "update user"):
        return "insert order"
    return "insert word" if kind == "delete word" and len(shop.words) < 10 else kind


def perform(shop: Shop, kind: str) -> int:
    """One change as one transaction. Returns the rows it touched: 0 where another writer was first."""
    with shop.connection.transaction():
        return WEIGHTS[kind][0](shop)
