"""The shop: a source database in PostgreSQL, filled from a seed inside the server."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import LiteralString

import psycopg
from psycopg import sql

from headrace.errors import TerminalError

TABLES = ("users", "products", "orders", "order_items", "page_words")
PUBLICATION = "headrace_shop"
PROBE_USER = 0
PROBE_ORDER = 0


def create_shop(
    dsn: str,
    *,
    seed: int,
    now: datetime | None = None,
    orders: int = 200_000,
    users: int = 5_000,
    products: int = 200,
    words: int = 50_000,
    reset: bool = False,
) -> bool:
    """Create and fill the shop in one transaction. An existing shop is kept as it is.

    Args:
        now: the end of eight days of orders; a few more lie around the day 52 weeks before. The same
            (seed, now) gives the same rows.
        reset: drop an existing shop first.

    Returns:
        Whether the shop was created by this call.
    """
    moment = now or datetime.now(UTC)
    if moment.tzinfo is None:
        raise TerminalError(f"`now={moment}` has no time zone; give an aware datetime")
    with psycopg.connect(dsn) as connection:
        present = existing_tables(connection)
        wanted = set(TABLES)
        if present and not reset:
            if present != wanted:
                missing = ", ".join(sorted(wanted - present))
                raise TerminalError(
                    f"the database has tables of the shop's names but lacks {missing}: it is not a shop made "
                    "by headrace; name an empty database in `postgres_url`"
                )
            return False
        for table in sorted(present):
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier("public", table)))
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(PUBLICATION)))
        # A name resolved elsewhere in the search path would be captured by nobody.
        connection.execute("SET LOCAL search_path = public")
        connection.execute(_script("schema.sql"))
        connection.execute(
            sql.SQL(_script("seed.sql")).format(
                seed=sql.Literal(seed),
                now=sql.Literal(moment),
                orders=sql.Literal(orders),
                users=sql.Literal(users),
                products=sql.Literal(products),
                words=sql.Literal(words),
            )
        )
        connection.execute(_script("constraints.sql"))
    return True


def existing_tables(connection: psycopg.Connection) -> set[str]:
    """Which of the shop's tables are there."""
    found = connection.execute(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'public' AND table_name = ANY(%s)",
        [list(TABLES)],
    )
    return {name for (name,) in found}


def row_counts(dsn: str) -> dict[str, int]:
    """Rows of every table of the shop, all counted at one moment."""
    parts = [
        sql.SQL("SELECT {}, count(*) FROM {}").format(sql.Literal(table), sql.Identifier("public", table))
        for table in TABLES
    ]
    with psycopg.connect(dsn) as connection:
        return dict(connection.execute(sql.SQL(" UNION ALL ").join(parts)).fetchall())


def _script(name: str) -> LiteralString:
    # psycopg wants to know that a statement is no user's text: these files are part of the package.
    return files("headrace.demo").joinpath(name).read_text()
