"""What an erasure reaches, of the queries alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_support import write_table

from headrace.errors import TerminalError
from headrace.planner.policy.erasure import Reach, key_values, reach
from headrace.spec.model import SourceTable, TableName, TableSpec

USERS, ORDERS = TableName("stg", "users"), TableName("stg", "orders")
COLUMNS: dict[TableName | SourceTable, tuple[str, ...]] = {
    USERS: ("user_id", "city"),
    ORDERS: ("order_id", "user_id", "amount"),
}


def reached(directory: Path, *tables: tuple[str, str, str]) -> Reach:
    """Of a user's key, in tables of `(name, columns, query)`."""
    specs: list[TableSpec] = []
    columns = dict(COLUMNS)
    for name, names, query in tables:
        key = names.split()[0]
        spec = write_table(directory, query, key=key, partition=None, name=name)
        specs.append(spec)
        columns[spec.name] = tuple(names.split())
    return reach(USERS, ("user_id",), specs, columns)


@pytest.mark.parametrize(
    ("columns", "query", "places"),
    [
        ("user_id city", "SELECT * FROM stg.users", ["user_id"]),
        ("id", "SELECT u.USER_ID AS id FROM (SELECT * FROM stg.users WHERE city > 'a') u", ["id"]),
        (
            "order_id user_id city",
            "SELECT o.order_id, o.user_id, u.city FROM stg.orders o "
            "JOIN stg.users u ON u.user_id = o.user_id",
            ["user_id"],
        ),
        (
            "order_id buyer city",
            "SELECT o.order_id, u.user_id AS buyer, u.city FROM stg.orders o "
            "LEFT JOIN stg.users u ON u.user_id = o.user_id",
            ["buyer"],
        ),
        (
            "a b",
            "SELECT x.user_id AS a, y.user_id AS b FROM stg.users x JOIN stg.users y ON x.city = y.city",
            ["a", "b"],
        ),
        ("user_id cnt", "SELECT user_id, count(*) AS cnt FROM stg.users GROUP BY user_id", ["user_id"]),
        ("city cnt", "SELECT city, count(*) AS cnt FROM stg.users GROUP BY city", []),
        ("user_id", "SELECT user_id + 0 AS user_id FROM stg.users", []),
        (  # an order's user may be one that there is not
            "order_id user_id city",
            "SELECT o.order_id, o.user_id, u.city FROM stg.orders o "
            "LEFT JOIN stg.users u ON u.user_id = o.user_id",
            [],
        ),
        (  # a row of the other side may have the same number
            "id",
            "SELECT user_id AS id FROM stg.users UNION ALL SELECT order_id AS id FROM stg.orders",
            [],
        ),
    ],
)
def test_a_table_carries_what_it_copies(tmp_path: Path, columns: str, query: str, places: list[str]) -> None:
    found = reached(tmp_path, ("dwd.made", columns, query))
    name = TableName("dwd", "made")
    expected = {name: tuple({"user_id": place} for place in places)} if places else {}
    assert (found.carriers, found.beyond) == (expected, () if places else (name,))


def test_it_goes_on_through_tables_and_leaves_others_alone(tmp_path: Path) -> None:
    found = reached(
        tmp_path,
        ("dwd.known", "id city", "SELECT user_id AS id, city FROM stg.users"),
        ("dwd.paid", "order_id amount", "SELECT order_id, amount FROM stg.orders WHERE amount > 0"),
        ("dws.per_user", "id cnt", "SELECT id, count(*) AS cnt FROM dwd.known GROUP BY id"),
        ("dws.per_city", "city cnt", "SELECT city, count(*) AS cnt FROM dwd.known GROUP BY city"),
        ("dws.more", "city", "SELECT city FROM dws.per_city"),
    )
    assert list(map(str, found.carriers)) == ["dwd.known", "dws.per_user"]
    assert list(map(str, found.beyond)) == ["dws.per_city", "dws.more"]


def test_a_key_is_all_of_its_columns() -> None:
    assert key_values("stg.users", ("user_id",), [(None, "7")]) == {"user_id": "7"}
    assert key_values("stg.t", ("grp", "id"), [("id", "2"), ("grp", "1")]) == {"grp": "1", "id": "2"}
    for given in ([(None, "1")], [("grp", "1")], [("grp", "1"), ("grp", "1")], [("grp", "1"), ("x", "2")]):
        with pytest.raises(TerminalError, match=r"is `grp`, `id`. Next: `headrace erase stg.t grp=… id=…`"):
            key_values("stg.t", ("grp", "id"), given)
