"""BI tools' way to the tables, on the running stack: the same rows, while they stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from repository import ROOT
from running_shop import Shop

from headrace.java import find_java
from headrace.services import runtime

TABLE = "dws.user_hour"
SERVERS = ROOT / ".headrace" / "servers"


def connect(shop: Shop) -> Any:
    settings = shop.settings
    login = {"username": "bi", "password": settings.gateway_read_token.read_text().strip()}
    return flight_sql.connect(settings.flight_sql_url, db_kwargs=login, autocommit=True)


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


@contextmanager
def by_jdbc(shop: Shop) -> Iterator[Any]:
    """A connection of Arrow's JDBC driver, in a JVM of its own."""
    settings = shop.settings
    runtime.ensure(SERVERS, folder=ROOT / "tests" / "servers")
    [driver] = (SERVERS / "jars" / "jdbc").glob("*.jar")
    [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j),
        classpath=str(driver),
        javaopts=["--add-opens=java.base/java.nio=ALL-UNNAMED"],
        java_path=str(find_java().binary),
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        login = gateway.jvm.java.util.Properties()
        token = settings.gateway_read_token.read_text().strip()
        for name, value in {"user": "bi", "password": token, "useEncryption": "false"}.items():
            login.setProperty(name, value)
        url = f"jdbc:arrow-flight-sql://127.0.0.1:{settings.flight_sql_port}"
        yield gateway.jvm.org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver().connect(url, login)
    finally:
        gateway.shutdown()


@pytest.mark.long
def test_jdbc_reads_the_same(shop: Shop) -> None:
    shop.wait_caught_up()
    query = f"SELECT user_id, logdate, cnt, amount FROM {TABLE} ORDER BY user_id, logdate"
    expected = [tuple(row.values()) for row in shop.client.query(query).to_pylist()]
    with by_jdbc(shop) as connection:
        found = connection.createStatement().executeQuery(query)
        rows = []
        while found.next():
            key = (found.getLong(1), found.getString(2), found.getLong(3))
            rows.append((*key, found.getBigDecimal(4)))
        assert rows == expected
        prepared = connection.prepareStatement(f"SELECT count(*) FROM {TABLE}").executeQuery()
        assert prepared.next() and prepared.getLong(1) == len(expected)
        told = connection.getMetaData()
        assert told.getDatabaseProductName() == "headrace" and told.isReadOnly()
        assert not told.supportsTransactions()
        columns = told.getColumns(None, "dws", "user_hour", None)
        names = []
        while columns.next():
            names.append(columns.getString("COLUMN_NAME"))
        assert names == ["user_id", "logdate", "cnt", "amount"]
