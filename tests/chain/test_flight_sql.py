"""BI tools' way to the tables, on the running stack: the same rows, while they stream."""

from __future__ import annotations

from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from running_shop import Shop

TABLE = "dws.user_hour"


def connect(shop: Shop) -> Any:
    settings = shop.settings
    login = {"username": "bi", "password": settings.gateway_read_token.read_text().strip()}
    return flight_sql.connect(
        f"grpc://127.0.0.1:{settings.flight_sql_port}", db_kwargs=login, autocommit=True
    )


def test_live_rows_are_read_as_they_are(shop: Shop) -> None:
    query = f"SELECT * FROM {TABLE} ORDER BY user_id, logdate"
    with connect(shop) as connection, connection.cursor() as cursor:
        with shop.load(seed=61):
            shop.wait_advanced(TABLE)
            assert cursor.execute(query).fetch_arrow_table().num_rows > 0
        shop.wait_caught_up()
        assert cursor.execute(query).fetch_arrow_table().equals(shop.client.query(query))
        large = "SELECT a.id FROM range(2000000) a ORDER BY a.id DESC"
        found = cursor.execute(large).fetch_arrow_table().column("id")
        assert (len(found), found[0].as_py(), found[-1].as_py()) == (2_000_000, 1_999_999, 0)


def test_tables_are_listed_and_nothing_is_changed(shop: Shop) -> None:
    with connect(shop) as connection:
        [catalog] = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        tables = {
            f"{schema['db_schema_name']}.{table['table_name']}": table
            for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        }
        assert tables.keys() == {str(name) for name in shop.project.tables}
        columns = [column["column_name"] for column in tables[TABLE]["table_columns"]]
        assert columns == ["user_id", "logdate", "cnt", "amount"]
        with connection.cursor() as cursor, pytest.raises(flight_sql.Error, match="the token is for reading"):
            cursor.execute(f"ALTER MATERIALIZED TABLE {TABLE} SUSPEND")
    assert shop.status()[TABLE].state == "RUNNING"
