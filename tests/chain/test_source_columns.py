"""Columns of the source change while they are followed: nothing is silently wrong, and there is a way on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop, own_shop

WORDS, COUNTS, TOTALS = "stg.page_words", "dwd.partition_word_count", "dws.partition_word_count"


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A small shop of its own: what happens to its columns stays in its tables."""
    with own_shop(tmp_path_factory.mktemp("columns"), seed=12) as shop:
        yield shop


@pytest.fixture
def shop(own_stack: Shop) -> Iterator[Shop]:
    own_stack.wait_running()
    own_stack.wait_caught_up()
    yield own_stack
    own_stack.wait_running()
    own_stack.wait_caught_up()
    own_stack.verify()


@pytest.fixture
def source(shop: Shop) -> Iterator[Callable[[str], None]]:
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        yield lambda statement: connection.execute(statement) and None


def values(shop: Shop, column: str, where: str = "true", table: str = WORDS) -> list[object]:
    found = shop.client.query(f"SELECT DISTINCT {column} AS v FROM {table} WHERE {where} ORDER BY v")
    return found.column(0).to_pylist()


def says(shop: Shop, table: str) -> str:
    return shop.status()[table].last_error or ""


@pytest.mark.long
def test_a_new_column_arrives_with_its_past_values(shop: Shop, source: Callable[[str], None]) -> None:
    source("ALTER TABLE page_words ADD COLUMN lang text DEFAULT 'en'")
    source("UPDATE page_words SET lang = 'de' WHERE word_id % 4 = 0")
    eventually(
        "it is there", lambda: "lang" in shop.client.query(f"SELECT * FROM {WORDS} LIMIT 1").column_names
    )
    eventually("with all values", lambda: values(shop, "lang") == ["de", "en"])


@pytest.mark.long
def test_who_reads_a_renamed_column_halts_until_it_is_back(shop: Shop, source: Callable[[str], None]) -> None:
    others = [str(t) for t in shop.project.tables if str(t) not in (WORDS, COUNTS, TOTALS)]
    source("ALTER TABLE page_words RENAME COLUMN word TO term")
    source("UPDATE page_words SET term = 'renamed' WHERE word_id % 4 = 1")
    eventually("its reader halts", lambda: shop.status()[COUNTS].state == "FAILED")
    assert "layers/dwd/partition_word_count.sql:10:" in says(shop, COUNTS)
    assert "column `word`" in says(shop, COUNTS) and "`headrace apply`" in says(shop, COUNTS)
    eventually("the others go on", lambda: shop.status()[WORDS].state == "RUNNING")
    eventually("the new name", lambda: "renamed" in values(shop, "term"))
    states = shop.status()
    assert {t: states[t].state for t in others} == dict.fromkeys(others, "RUNNING")
    assert values(shop, "word") == [None]
    shop.verify(WORDS)
    before = values(shop, "word", table=COUNTS)
    assert "renamed" not in before and None not in before

    shop.kill()  # what halts does so after a restart
    eventually("it halts", lambda: shop.status()[COUNTS].state == "FAILED")
    source("UPDATE page_words SET term = 'while it stands' WHERE word_id % 4 = 2")
    source("ALTER TABLE page_words RENAME COLUMN term TO word")
    eventually("it goes on", lambda: shop.status()[COUNTS].state == "RUNNING")
    eventually(
        "all is there", lambda: {"renamed", "while it stands"} <= set(values(shop, "word", table=COUNTS))
    )


@pytest.mark.long
def test_a_wider_type_is_followed_and_a_narrower_one_asks(shop: Shop, source: Callable[[str], None]) -> None:
    source("ALTER TABLE products ALTER COLUMN price TYPE numeric(16,4)")
    source("UPDATE products SET price = price + 0.0001 WHERE product_id % 2 = 0")
    eventually("the type", lambda: described(shop, "stg.products")["price"] == "decimal(16,4)")
    shop.wait_running()
    shop.wait_caught_up()
    shop.verify("stg.products")

    source("ALTER TABLE products ALTER COLUMN price TYPE numeric(12,2)")
    source("UPDATE products SET name = 'narrow' WHERE product_id = 3")
    eventually("it halts", lambda: "need not hold" in says(shop, "stg.products"))
    assert "column `price` is a numeric(12,2), was a numeric(16,4)" in says(shop, "stg.products")
    assert shop.status()["stg.users"].state == "RUNNING"
    shop.client.run("APPLY")
    assert described(shop, "stg.products")["price"] == "decimal(12,2)"


@pytest.mark.long
def test_columns_change_while_nobody_is_there(shop: Shop, source: Callable[[str], None]) -> None:
    shop.client.run("ALTER MATERIALIZED TABLE stg.users SUSPEND")
    source("UPDATE users SET city = 'before' WHERE user_id % 5 = 0")
    source("ALTER TABLE users ADD COLUMN vip boolean NOT NULL DEFAULT false")
    source("UPDATE users SET vip = true WHERE user_id % 5 = 1")
    shop.stack.supervisor.stop("warehouse")
    source("ALTER TABLE orders ADD COLUMN note text")
    source("UPDATE orders SET note = 'noted' WHERE order_id % 5 = 1")
    shop.stack.supervisor.launch("warehouse")
    shop.wait_answers()
    eventually("it follows", lambda: values(shop, "note", table="stg.orders") == [None, "noted"])
    shop.client.run("ALTER MATERIALIZED TABLE stg.users RESUME")
    eventually("it follows", lambda: values(shop, "vip", table="stg.users") == [False, True])
    assert values(shop, "city", "user_id % 5 = 0", table="stg.users") == ["before"]


def described(shop: Shop, table: str) -> dict[str, str]:
    found = shop.client.run(f"DESCRIBE MATERIALIZED TABLE {table}").result
    return {column["name"]: column["type"] for column in found["columns"]}


@pytest.mark.long
def test_a_value_that_its_type_cannot_hold_is_put_aside_until_the_type_does(
    shop: Shop, source: Callable[[str], None]
) -> None:
    source("UPDATE products SET price = 'NaN' WHERE product_id = 5")
    eventually("it is put aside", lambda: shop.status()["stg.products"].dead_letters == 1)
    source("UPDATE products SET name = 'still NaN' WHERE product_id = 5")
    eventually("so is the next", lambda: shop.status()["stg.products"].dead_letters == 2)
    source("UPDATE products SET name = 'goes on' WHERE product_id = 6")
    eventually("others go on", lambda: values(shop, "name", "product_id = 6", "stg.products") == ["goes on"])
    source("UPDATE products SET price = 5.00 WHERE product_id = 5")
    eventually("it is well", lambda: values(shop, "name", "product_id = 5", "stg.products") == ["still NaN"])
    replay = "ALTER MATERIALIZED TABLE stg.products REPLAY DEAD LETTERS"
    assert shop.client.run(replay).result["replayed"] == 0  # its type is what it was
    shop.client.run("ALTER MATERIALIZED TABLE stg.products DROP DEAD LETTERS REASON 'superseded'")
    assert shop.status()["stg.products"].dead_letters == 0
