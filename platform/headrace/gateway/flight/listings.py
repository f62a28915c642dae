"""What clients of Flight SQL list: schemas, tables, keys, and what the server is able to. Pure Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

TABLE = "TABLE"
"""The one type of tables: what asks for others, views say, finds none."""

_TEXT = pa.string()


def _schema(*columns: str, **others: pa.DataType) -> pa.Schema:
    """Texts by name, `!` for those that are always there, and columns of other types, which always are."""
    fields = [pa.field(name.rstrip("!"), _TEXT, nullable=not name.endswith("!")) for name in columns]
    return pa.schema([*fields, *(pa.field(name, kind, nullable=False) for name, kind in others.items())])


CATALOGS = _schema("catalog_name!")
SCHEMAS = _schema("catalog_name", "db_schema_name!")
TABLES = _schema("catalog_name", "db_schema_name", "table_name!", "table_type!")
TABLE_TYPES = _schema("table_type!")
PRIMARY_KEYS = pa.schema([
    *_schema("catalog_name", "db_schema_name", "table_name!", "column_name!", "key_name"),
    pa.field("key_sequence", pa.int32(), nullable=False),
])  # fmt: skip
FOREIGN_KEYS = pa.schema([
    *_schema("pk_catalog_name", "pk_db_schema_name", "pk_table_name!", "pk_column_name!"),
    *_schema("fk_catalog_name", "fk_db_schema_name", "fk_table_name!", "fk_column_name!"),
    pa.field("key_sequence", pa.int32(), nullable=False),
    *_schema("fk_key_name", "pk_key_name", update_rule=pa.uint8(), delete_rule=pa.uint8()),
])  # fmt: skip


@dataclass(frozen=True)
class ListedTable:
    """
    Args:
        schema: its layer.
        key: tells the columns of its primary key, in order.
        columns: tells the Arrow schema of all.
    """

    schema: str
    name: str
    key: Callable[[], Sequence[str]]
    columns: Callable[[], pa.Schema]


def schemas(tables: Iterable[ListedTable], pattern: str) -> pa.Table:
    found = sorted({table.schema for table in tables if _like(table.schema, pattern)})
    return _table(SCHEMAS, [{"db_schema_name": name} for name in found])


def listed(
    tables: Iterable[ListedTable],
    schema: str,
    name: str,
    types: Collection[str],
    *,
    with_columns: bool,
) -> pa.Table:
    """
    Args:
        schema, name: patterns of LIKE; "" for all.
        types: of tables; none for all.
        with_columns: with each table's Arrow schema, as bytes.
    """
    found: list[dict[str, Any]] = []
    for table in tables:
        if _like(table.schema, schema) and _like(table.name, name) and (not types or TABLE in types):
            row = {"db_schema_name": table.schema, "table_name": table.name, "table_type": TABLE}
            found.append(
                row | ({"table_schema": table.columns().serialize().to_pybytes()} if with_columns else {})
            )
    extra = pa.field("table_schema", pa.binary(), nullable=False)
    return _table(TABLES.append(extra) if with_columns else TABLES, found)


def primary_keys(tables: Iterable[ListedTable], schema: str, name: str) -> pa.Table:
    found = [
        {
            "db_schema_name": table.schema,
            "table_name": table.name,
            "column_name": column,
            "key_sequence": place,
        }
        for table in tables
        if table.name == name and schema in ("", table.schema)
        for place, column in enumerate(table.key(), start=1)
    ]
    return _table(PRIMARY_KEYS, found)


def _table(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def _like(text: str, pattern: str) -> bool:
    if not pattern:
        return True
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text, re.DOTALL) is not None


# Numbers of Arrow's `SqlInfo`. JDBC's driver fails where one is missing that it is asked for, and where one
# is there that it does not know.
_YES = (
    *(3, 4),  # it only reads, and by SQL
    *(506, 515, 516, 518, 520, 521, 523, 532, 539),  # what Spark's SELECT is able to
)
_NO = (
    *(5, 9, 500, 501, 502),  # Substrait, cancelling, catalogs, schemas and tables that clients make
    *(519, 524, 527, 536, 537, 556, 572, 573, 574, 575, 576),  # updates, procedures, savepoints
    *(563, 565, 566),  # transactions
)
_TEXTS = {0: "headrace", 504: "`", 513: "\\", 514: "", 529: "schema", 530: "procedure", 531: "catalog"}
_ORDINALS = {
    **{8: 0, 564: 1},  # no transactions, none of their levels
    **{503: 3, 505: 3},  # names in lower case, whether quoted or not
    507: 1,  # NULL is less than anything
    **{522: 0b11, 525: 0b111, 526: 0b1, 528: 0b110, 538: 0b1111, 540: 0b11},  # GROUP BY, joins, subqueries
    **{533: 0, 534: 0, 535: 0, 567: 0b10},  # results are read forward
}
_ZERO = (*(n for n in range(541, 562) if n != 556), 562)  # bounds, of which there are none; isolation
_LISTS = (508, 509, 510, 511, 512)  # keywords and functions: Spark's documentation has them

_VALUE = pa.dense_union(
    [
        pa.field("string_value", _TEXT),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(_TEXT)),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
SQL_INFO = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE)])


def sql_info(versions: Mapping[int, str], asked: Collection[int]) -> pa.Table:
    """What the server is able to.

    Args:
        versions: what else there is to say, by number: that of headrace, and of Arrow.
        asked: numbers; none for all.
    """
    of_kind: tuple[Mapping[int, Any], ...] = (
        _TEXTS | dict(versions),
        dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False),
        dict.fromkeys(_ZERO, 0),
        _ORDINALS,
        {number: [] for number in _LISTS},
        {},
    )
    numbers: list[int] = []
    kinds: list[int] = []
    places: list[int] = []
    children: list[list[Any]] = [[] for _ in of_kind]
    for kind, known in enumerate(of_kind):
        for number, value in known.items():
            if not asked or number in asked:
                numbers.append(number)
                kinds.append(kind)
                places.append(len(children[kind]))
                children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(child, _VALUE.field(at).type) for at, child in enumerate(children)],
        [_VALUE.field(at).name for at in range(_VALUE.num_fields)],
    )
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), values], schema=SQL_INFO)
