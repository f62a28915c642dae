"""Columns of the source change while they are followed: nothing is silently wrong, and there is a way on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop, grant, own_shop
from test_surfaces import command

from headrace.sources.connect import ConnectClient
from headrace.spec import load_project

WORDS, COUNTS, TOTALS = "stg.page_words", "dwd.partition_word_count", "dws.partition_word_count"
OTHERS = ("dws.gmv_hour", "dws.gmv_day", "dws.gmv_compared", "dws.top_products", "dws.user_hour")


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A small shop of its own, over topics of several partitions: what happens to its columns stays there.

    Of dws it has what reads the words: no test is about the others, and each costs time in all of them.
    """
    project = tmp_path_factory.mktemp("columns")
    with own_shop(project, seed=12, without=OTHERS, partitions=3) as shop:
        yield shop
        shop.verify()  # all of it, once: what a test is about it compares itself


@pytest.fixture
def shop(own_stack: Shop) -> Iterator[Shop]:
    own_stack.wait_running()
    own_stack.wait_caught_up()
    yield own_stack
    own_stack.wait_running()
    own_stack.wait_caught_up()


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


@pytest.mark.long
def test_what_was_written_before_the_columns_changed_is_read_as_it_was(
    shop: Shop, source: Callable[[str], None]
) -> None:
    """The connector comes to it only after the change, on a connection of its own."""
    with ConnectClient(shop.settings.connect_rest) as connect:
        connect.stop("shop")
        source("UPDATE order_items SET quantity = 77 WHERE item_id % 5 = 0")
        source("ALTER TABLE order_items ALTER COLUMN quantity TYPE bigint")
        source("UPDATE order_items SET quantity = 5000000000 WHERE item_id % 5 = 1")
        connect.resume("shop")
        connect.wait_running("shop")
    large = 5_000_000_000
    eventually("it follows", lambda: large in values(shop, "quantity", table="stg.order_items"))
    for rest, quantity in ((0, 77), (1, large)):
        assert values(shop, "quantity", f"item_id % 5 = {rest}", "stg.order_items") == [quantity]


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


NOTES, CODES, NOTED = "stg.notes", "stg.codes", "dwd.noted"
JOINED = (
    f"CREATE MATERIALIZED TABLE {NOTED} (PRIMARY KEY (id))\nFRESHNESS = INTERVAL '10' SECOND\n"
    f"AS SELECT n.id, n.said, c.code FROM {NOTES} n JOIN {CODES} c ON c.code = n.code\n"
)


def capture(shop: Shop, *tables: str) -> None:
    """Files for more tables of the source, each with a stg table."""
    project = shop.settings.project
    file = project / "deploy" / "connectors" / "shop.json"
    connector = json.loads(file.read_text())
    connector["config"]["table.include.list"] += "".join(f",public.{table}" for table in tables)
    file.write_text(json.dumps(connector))
    grant(shop.dsn, file)
    for table in tables:
        text = f"CREATE MATERIALIZED TABLE stg.{table}\nFRESHNESS = DOWNSTREAM\nAS SELECT *\n"
        (project / "layers" / "stg" / f"{table}.sql").write_text(f"{text}FROM shop.public.{table}\n")
    (project / "layers" / "dwd" / "noted.sql").write_text(JOINED)


@pytest.mark.long
def test_a_table_that_others_inherit_from_halts(shop: Shop, source: Callable[[str], None]) -> None:
    source("CREATE TABLE old_words () INHERITS (page_words)")
    source("UPDATE page_words SET word = word WHERE word_id = 1")
    eventually("it halts", lambda: "has heirs (old_words)" in says(shop, WORDS))
    assert "ALTER TABLE old_words NO INHERIT" in says(shop, WORDS)
    assert shop.status()["stg.users"].state == "RUNNING"
    source("DROP TABLE old_words")
    shop.client.run("APPLY")


@pytest.mark.long
def test_a_table_without_a_key_is_refused_and_everything_else_goes_on(
    shop: Shop, source: Callable[[str], None]
) -> None:
    source("CREATE TABLE notes (id int, code text, said text)")
    source("INSERT INTO notes SELECT n, 'c' || n % 3, 'first' FROM generate_series(1, 9) AS n")
    source("CREATE TABLE codes (code text NOT NULL, worth numeric(9,2))")
    source("CREATE UNIQUE INDEX codes_by_code ON codes (code)")
    source("ALTER TABLE codes REPLICA IDENTITY USING INDEX codes_by_code")
    source("INSERT INTO codes SELECT 'c' || n, n FROM generate_series(0, 4) AS n")
    capture(shop, "notes", "codes")
    mends = 'ALTER TABLE "public"."notes" ADD PRIMARY KEY (…)'

    applied = command(shop, "apply").stderr
    assert "layers/stg/notes.sql:4:6: the source table `shop.public.notes` has no primary key" in applied
    assert mends in applied
    shop.project = load_project(shop.settings.project)
    others = {str(t) for t in shop.project.tables} - {NOTES}
    for again in (False, True):
        if again:
            shop.kill()
        eventually("it is refused", lambda: shop.status()[NOTES].state == "FAILED")
        eventually(
            "others run",
            lambda: {s.state for t, s in shop.status().items() if t in others} == {"RUNNING"},
        )
        assert "layers/stg/notes.sql:4:6" in says(shop, NOTES) and mends in says(shop, NOTES)
    assert mends in command(shop, "doctor", code=1).stdout
    assert mends in command(shop, "plan").stderr
    source("UPDATE codes SET worth = 10 WHERE code = 'c1'")
    source("DELETE FROM codes WHERE code = 'c4'")
    source("UPDATE codes SET code = 'c5' WHERE code = 'c3'")
    eventually("codes follow", lambda: values(shop, "code", table=CODES) == ["c0", "c1", "c2", "c5"])
    source("INSERT INTO notes VALUES (10, 'c1', 'without a key')")
    shop.verify(CODES, "stg.users")

    source("ALTER TABLE notes ADD PRIMARY KEY (id)")
    source("UPDATE notes SET said = 'before it is applied' WHERE id = 2")
    command(shop, "apply")
    shop.wait_running()
    source("DELETE FROM notes WHERE id = 3")
    source("UPDATE notes SET said = 'followed' WHERE id = 4")
    eventually("it is followed", lambda: shop.status()[NOTES].rows == 9)
    eventually("and read", lambda: "followed" in values(shop, "said", table=NOTED))
    shop.verify(NOTES, CODES, NOTED)

    source("ALTER TABLE notes DROP CONSTRAINT notes_pkey")
    eventually("it is refused again", lambda: "layers/stg/notes.sql:4:6" in says(shop, NOTES))
    assert shop.status()[CODES].state == "RUNNING"
    source("ALTER TABLE notes ADD PRIMARY KEY (id)")
    command(shop, "apply")
    shop.wait_running()
