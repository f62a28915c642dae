"""Flight SQL as clients speak it: ADBC's driver, and single calls of Arrow's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from gateway_support import Gateway, free_port, serve
from pyarrow import flight
from stored_support import no_jvm as no_jvm

from headrace.errors import TerminalError
from headrace.gateway.flight import server
from headrace.gateway.flight.listings import sql_info
from headrace.gateway.flight.messages import pack, parse

pytestmark = pytest.mark.usefixtures("no_jvm")


@dataclass
class Served:
    gateway: Gateway
    url: str

    def connect(self, **options: str) -> Any:
        """A connection of ADBC; with the token that reads, where no other options are given."""
        given = options or {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer reader"}
        return flight_sql.connect(self.url, db_kwargs=given, autocommit=True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as gateway:
        port = free_port()
        end = server.serve(gateway.service, port=port, tokens=["secret", "reader"])
        yield Served(gateway, f"grpc://127.0.0.1:{port}")
        end()


def rows(served: Served, sql: str, **options: str) -> Any:
    with served.connect(**options) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def test_a_select_s_rows_are_those_of_the_gateway(served: Served) -> None:
    served.gateway.warehouse.rows = pa.table({"id": list(range(200_000)), "x": ["é"] * 200_000})
    assert rows(served, "SELECT id, x FROM stg.orders").equals(served.gateway.warehouse.rows)
    assert served.gateway.warehouse.calls == [("select", "SELECT id, x FROM stg.orders")]


def test_a_prepared_statement_is_run_once_each_time_it_is_executed(served: Served) -> None:
    """As JDBC's driver reads: it asks for the columns first."""
    with served.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_sql_query("SELECT id FROM stg.orders")
        cursor.adbc_statement.prepare()
        for count in (1, 2):
            stream, _ = cursor.adbc_statement.execute_query()
            assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows == 2
            assert len(served.gateway.warehouse.calls) == count


def test_statements_that_do_more_than_read_are_refused(served: Served) -> None:
    for token in ("reader", "secret"):
        given = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
        with pytest.raises(flight_sql.Error, match="the token is for reading"):
            rows(served, "ALTER MATERIALIZED TABLE stg.orders SUSPEND", **given)
    with pytest.raises(flight_sql.Error, match=r"no table `stg\.order`\n  hint: did you mean `stg\.orders`"):
        rows(served, "SELECT * FROM stg.order")
    with pytest.raises(flight_sql.Error, match="`SHOW` has no rows"):
        rows(served, "SHOW MATERIALIZED TABLES")
    assert not [call for call in served.gateway.warehouse.calls if call[0] != "select"]


def test_a_statement_that_fails_says_why_and_nothing_of_the_server(served: Served) -> None:
    def fails(sql: str) -> pa.Table:
        raise TerminalError("there is no version 9")

    served.gateway.warehouse.on_select = fails
    with pytest.raises(flight_sql.Error, match="there is no version 9") as told:
        rows(served, "SELECT * FROM stg.orders")
    assert "Traceback" not in str(told.value)


def test_who_has_no_token_reads_nothing(served: Served) -> None:
    for header in ("Bearer other", "reader", "Basic ???"):
        with pytest.raises(flight_sql.Error, match="the token is missing or wrong"):
            rows(served, "SELECT 1", **{DatabaseOptions.AUTHORIZATION_HEADER.value: header})
    with pytest.raises(flight_sql.Error, match="the token is missing or wrong"):
        rows(served, "SELECT 1", username="anybody", password="wrong")
    assert served.gateway.warehouse.calls == []


def test_the_token_is_a_password_too(served: Served) -> None:
    assert rows(served, "SELECT id FROM stg.orders", username="anybody", password="reader").num_rows == 2
    told = base64.b64encode(b"anybody:reader").decode()
    given = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Basic {told}"}
    assert rows(served, "SELECT id FROM stg.orders", **given).num_rows == 2


def test_tables_are_listed_with_their_columns(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def described(self: Any, table: str) -> dict[str, Any]:
        columns = [{"name": "id", "type": "bigint"}, {"name": "amount", "type": "decimal(12,2)"}]
        return {"table": table, "columns": columns, "primary_key": ["id"]}

    monkeypatch.setattr(type(served.gateway.warehouse), "describe", described)
    with served.connect() as connection:
        [catalog] = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [schema] = catalog["catalog_db_schemas"]
        assert schema["db_schema_name"] == "stg"
        found = {t["table_name"]: t for t in schema["db_schema_tables"]}
        assert found.keys() == {"orders", "users"} and {t["table_type"] for t in found.values()} == {"TABLE"}
        columns = [column["column_name"] for column in found["orders"]["table_columns"]]
        assert columns == ["id", "amount"]
        some = connection.adbc_get_objects(depth="tables", table_name_filter="ord%").read_all().to_pylist()
        assert [
            t["table_name"] for s in some for d in s["catalog_db_schemas"] for t in d["db_schema_tables"]
        ] == ["orders"]
        assert connection.adbc_get_table_types() == ["TABLE"]
        known = connection.adbc_get_info()
        assert known["vendor_name"] == "headrace" and known["vendor_version"]


def call(served: Served, command: bytes) -> pa.Table:
    """The rows of a command, by Arrow's own client."""
    with flight.connect(served.url) as client:
        options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer reader")])
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
        found = client.do_get(info.endpoints[0].ticket, options).read_all()
        assert found.schema.equals(info.schema)
        assert client.get_schema(flight.FlightDescriptor.for_command(command), options).schema == info.schema
        return found


def test_keys_and_schemas_are_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(served.gateway.warehouse), "describe", lambda self, table: {"primary_key": ["id", "at"]}
    )
    keys = call(served, pack("CommandGetPrimaryKeys", db_schema="stg", table="orders"))
    told = [(k["table_name"], k["column_name"], k["key_sequence"]) for k in keys.to_pylist()]
    assert told == [("orders", "id", 1), ("orders", "at", 2)]
    assert call(served, pack("CommandGetDbSchemas")).column("db_schema_name").to_pylist() == ["stg"]
    assert call(served, pack("CommandGetDbSchemas", catalog="other")).num_rows == 0
    for empty in ("CommandGetCatalogs", "CommandGetImportedKeys", "CommandGetExportedKeys"):
        assert call(served, pack(empty)).num_rows == 0


def test_what_is_not_of_flight_sql_is_refused(served: Served) -> None:
    ticket, action = pack("TicketStatementQuery"), pack("ActionClosePreparedStatementRequest")
    for command in (b"\xff\xff", b"", b"SELECT 1", ticket, action):
        with pytest.raises(flight.FlightServerError, match="is not done here"):
            call(served, command)
    gone = pack("CommandPreparedStatementQuery", prepared_statement_handle=b"none")
    with pytest.raises(flight.FlightServerError, match="Next: prepare it again"):
        call(served, gone)


def test_a_port_in_use_is_named(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(TerminalError, match=rf"port {port} cannot be used .* set `flight_sql_port`"):
        server.serve(served.gateway.service, port=port, tokens=[])


def test_messages_are_those_of_the_protocol() -> None:
    """Bytes as Arrow's own clients send them."""
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    data = b"\n" + bytes([len(url)]) + url + b"\x12\x0a\n\x08SELECT 1"
    assert pack("CommandStatementQuery", query="SELECT 1") == data
    name, message = parse(data)
    assert (name, message.query) == ("CommandStatementQuery", "SELECT 1")


def test_what_it_is_able_to_is_told_in_the_types_of_the_protocol() -> None:
    found = dict(zip(*sql_info({1: "0.1"}, []).to_pydict().values(), strict=True))
    assert (found[0], found[1], found[3], found[504]) == ("headrace", "0.1", True, "`")
    assert sql_info({}, [504]).to_pydict() == {"info_name": [504], "value": ["`"]}
