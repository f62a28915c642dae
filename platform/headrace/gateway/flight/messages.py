"""The messages of Flight SQL that the server understands, with the numbers of Arrow's `FlightSql.proto`."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError, Message

from headrace.errors import TerminalError

_PACKAGE = "arrow.flight.protocol.sql"
_URL = f"type.googleapis.com/{_PACKAGE}."

_TABLE = "catalog=1 db_schema=2 table=3"
_FIELDS = {
    "CommandStatementQuery": "query=1",
    "TicketStatementQuery": "statement_handle:bytes=1",
    "CommandPreparedStatementQuery": "prepared_statement_handle:bytes=1",
    "ActionCreatePreparedStatementRequest": "query=1",
    "ActionCreatePreparedStatementResult": (
        "prepared_statement_handle:bytes=1 dataset_schema:bytes=2 parameter_schema:bytes=3"
    ),
    "ActionClosePreparedStatementRequest": "prepared_statement_handle:bytes=1",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "catalog=1 db_schema_filter_pattern=2",
    "CommandGetTables": (
        "catalog=1 db_schema_filter_pattern=2 table_name_filter_pattern=3 table_types:many=4 "
        "include_schema:bool=5"
    ),
    "CommandGetTableTypes": "",
    "CommandGetSqlInfo": "info:numbers=1",
    "CommandGetPrimaryKeys": _TABLE,
    "CommandGetExportedKeys": _TABLE,
    "CommandGetImportedKeys": _TABLE,
}
"""By the message's name: fields that are texts, where nothing else is said, and their numbers."""

_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "": (_Field.TYPE_STRING, _Field.LABEL_OPTIONAL),
    "bytes": (_Field.TYPE_BYTES, _Field.LABEL_OPTIONAL),
    "bool": (_Field.TYPE_BOOL, _Field.LABEL_OPTIONAL),
    "many": (_Field.TYPE_STRING, _Field.LABEL_REPEATED),
    "numbers": (_Field.TYPE_UINT32, _Field.LABEL_REPEATED),
}


def _classes() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="flight_sql", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for written in fields.split():
            told, _, number = written.partition("=")
            field, _, kind = told.partition(":")
            of, label = _KINDS[kind]
            message.field.add(name=field, number=int(number), type=of, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _FIELDS
    }


_CLASSES = _classes()


def parse(data: bytes) -> tuple[str, Any]:
    """The name of a message, and it itself.

    Raises:
        TerminalError: it is none of Flight SQL, or asks for what a reader may not do.
    """
    packed = Packed()
    try:
        packed.ParseFromString(data)
        name = packed.type_url.removeprefix(_URL)
        if (kind := _CLASSES.get(name)) is not None:
            return name, kind.FromString(packed.value)
    except DecodeError:
        name = ""
    what = f"`{name}`" if name else "this"
    raise TerminalError(f"{what} is not done here: Flight SQL reads tables by SELECT and lists them")


def pack(name: str, **fields: Any) -> bytes:
    """The bytes of a message."""
    return Packed(
        type_url=f"{_URL}{name}", value=_CLASSES[name](**fields).SerializeToString()
    ).SerializeToString()
