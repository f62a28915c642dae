"""Arrow Flight SQL: what BI tools read tables by. Loopback only, with a token, and it only reads.

A statement runs as any other of the gateway does, with the same bounds; its rows are streamed from their
file. See Arrow's "Flight SQL" specification for the order of calls.
"""

from __future__ import annotations

import base64
import binascii
import importlib.metadata
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import flight

from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.gateway.flight import listings
from headrace.gateway.flight.messages import pack, parse
from headrace.gateway.listening import listen
from headrace.settings import LOOPBACK

if TYPE_CHECKING:
    from headrace.gateway.service import Service

WAIT_SECONDS = 10.0
"""Between two looks at a statement that runs."""

MOST_PREPARED = 1_000
"""Statements that clients have prepared and not closed; older ones are forgotten."""


class FlightSql(flight.FlightServerBase):
    """
    Args:
        service: the warehouse and its statements.
        port: on loopback.
        tokens: one of which a client presents, as a bearer's, or as a password of whatever user.
    """

    def __init__(self, service: Service, *, port: int, tokens: Sequence[str]) -> None:
        super().__init__(
            f"grpc://{LOOPBACK}:{port}",
            auth_handler=_Handshake(),
            middleware={"authentication": _Authentication(tokens)},
        )
        self._service = service
        self._prepared: dict[bytes, str] = {}
        self._ready: dict[bytes, str] = {}  # results of prepared statements that nobody has read yet
        self._lock = threading.Lock()

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        with _told():
            name, asked = parse(descriptor.command)
            match name:
                case "CommandStatementQuery":
                    id = self._run(asked.query)
                case "CommandPreparedStatementQuery":
                    id = self._run_prepared(asked.prepared_statement_handle)
                case _:
                    found = self._listing(name, asked, rows=False)
                    return _info(found.schema, descriptor, descriptor.command)
            ticket = pack("TicketStatementQuery", statement_handle=id.encode())
            return _info(self._schema(id), descriptor, ticket)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        return flight.SchemaResult(self.get_flight_info(context, descriptor).schema)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        with _told():
            name, asked = parse(ticket.ticket)
            if name != "TicketStatementQuery":
                return flight.RecordBatchStream(self._listing(name, asked))
            return flight.RecordBatchStream(pa.ipc.open_stream(self._rows(asked.statement_handle.decode())))

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        with _told():
            name, asked = parse(action.body.to_pybytes())
            match action.type, name:
                case "CreatePreparedStatement", "ActionCreatePreparedStatementRequest":
                    yield flight.Result(self._prepare(asked.query))
                case "ClosePreparedStatement", "ActionClosePreparedStatementRequest":
                    self._forget(asked.prepared_statement_handle)
                case _:
                    raise TerminalError(f"`{action.type}` is not done here")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [("CreatePreparedStatement", "Analyse a SELECT."), ("ClosePreparedStatement", "Forget it.")]

    def _run(self, sql: str) -> str:
        """Run a statement to its end; the id of its rows."""
        submitted = self._service.submit(sql, reading=True)
        found = submitted
        while found.state in ("QUEUED", "RUNNING"):
            found = self._service.jobs.get(submitted.id, WAIT_SECONDS)
        if found.state != "SUCCEEDED":
            raise TerminalError(found.error or f"the statement was {found.state.lower()}")
        if not found.has_rows:
            raise TerminalError(f"`{sql.split()[0].upper()}` has no rows: Flight SQL reads tables by SELECT")
        return submitted.id

    def _prepare(self, sql: str) -> bytes:
        """Its schema is that of its rows, which who executes it first gets."""
        id, handle = self._run(sql), secrets.token_bytes(16)
        with self._lock:
            self._prepared[handle], self._ready[handle] = sql, id
            while len(self._prepared) > MOST_PREPARED:
                oldest = next(iter(self._prepared))
                del self._prepared[oldest]
                self._ready.pop(oldest, None)
        schema = self._schema(id).serialize().to_pybytes()
        return pack(
            "ActionCreatePreparedStatementResult", prepared_statement_handle=handle, dataset_schema=schema
        )

    def _run_prepared(self, handle: bytes) -> str:
        with self._lock:
            sql, id = self._prepared.get(handle), self._ready.pop(handle, None)
        if sql is None:
            raise TerminalError("the statement was closed, or prepared long ago. Next: prepare it again")
        return id or self._run(sql)

    def _forget(self, handle: bytes) -> None:
        with self._lock:
            self._prepared.pop(handle, None)
            self._ready.pop(handle, None)

    def _schema(self, id: str) -> pa.Schema:
        with self._rows(id) as stream, pa.ipc.open_stream(stream) as reader:
            return reader.schema

    def _rows(self, id: str) -> BinaryIO:
        stream = self._service.jobs.rows(id)
        if stream is None:
            raise TerminalError("the rows are kept no longer. Next: run the statement again")
        return stream

    def _listing(self, name: str, asked: Any, *, rows: bool = True) -> pa.Table:
        """What clients list.

        Args:
            rows: false where only the columns are wanted: no table is asked then.
        """
        match name:
            case "CommandGetCatalogs":
                return listings.CATALOGS.empty_table()
            case "CommandGetTableTypes":
                return pa.table({"table_type": [listings.TABLE]}, schema=listings.TABLE_TYPES)
            case "CommandGetExportedKeys" | "CommandGetImportedKeys":
                return listings.FOREIGN_KEYS.empty_table()
            case "CommandGetSqlInfo":
                versions = {1: importlib.metadata.version("headrace"), 2: pa.__version__}
                return listings.sql_info(versions, asked.info)
            case "CommandGetDbSchemas" | "CommandGetTables" | "CommandGetPrimaryKeys":
                return _of_tables(name, asked, self._service.tables() if rows and not asked.catalog else [])
        raise TerminalError(f"`{name}` is not done here")


def _of_tables(name: str, asked: Any, tables: Sequence[listings.ListedTable]) -> pa.Table:
    if name == "CommandGetDbSchemas":
        return listings.schemas(tables, asked.db_schema_filter_pattern)
    if name == "CommandGetPrimaryKeys":
        return listings.primary_keys(tables, asked.db_schema, asked.table)
    return listings.listed(
        tables,
        asked.db_schema_filter_pattern,
        asked.table_name_filter_pattern,
        asked.table_types,
        with_columns=asked.include_schema,
    )


def _info(schema: pa.Schema, descriptor: flight.FlightDescriptor, ticket: bytes) -> flight.FlightInfo:
    return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1)


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong goes to the client as its text, without a traceback of the server."""
    try:
        yield
    except TransientError as error:
        raise flight.FlightUnavailableError(str(error)) from None
    except HeadraceError as error:
        raise flight.FlightServerError(str(error)) from None


class _Handshake(flight.ServerAuthHandler):
    """Nothing: who is who is told by headers, which `_Authentication` reads, of the handshake's call, too."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        return

    def is_valid(self, token: bytes) -> bytes:
        return b""


class _Authentication(flight.ServerMiddlewareFactory):
    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        self._tokens = [token.encode() for token in tokens]

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> _Bearer:
        given = _token(next(iter(headers.get("authorization", ())), ""))
        if not sum(secrets.compare_digest(given, token) for token in self._tokens):
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")
        return _Bearer(given.decode())


def _token(header: str) -> bytes:
    kind, _, value = header.partition(" ")
    if kind.lower() != "basic":
        return value.encode() if kind.lower() == "bearer" else b""
    try:
        padded = value + "=" * (-len(value) % 4)  # Go's client leaves that out
        return base64.b64decode(padded).partition(b":")[2]
    except binascii.Error:
        return b""


class _Bearer(flight.ServerMiddleware):
    """Tells who came with a password what to present from now on."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


def serve(service: Service, *, port: int, tokens: Sequence[str]) -> Callable[[], None]:
    """Serve Flight SQL until what is returned is called.

    Raises:
        TerminalError: the port is in use.
    """
    listen(port, "flight_sql_port").close()  # gRPC would share it with another server of its kind
    return FlightSql(service, port=port, tokens=tokens).shutdown  # it answers from here on
