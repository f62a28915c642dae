"""Column types of MySQL and MariaDB: how Debezium writes them as JSON, and what they become in Spark.

The connector settings this relies on: `decimal.handling.mode=string`, `binary.handling.mode=base64`,
`enable.time.adjuster=false`, and Debezium's defaults `time.precision.mode=adaptive_time_microseconds`,
`bigint.unsigned.handling.mode=long`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.sources.columns import SourceColumn

_INTEGERS = {
    "smallint": "smallint",
    "smallint unsigned": "int",
    "tinyint unsigned": "smallint",
    "mediumint": "int",
    "mediumint unsigned": "int",
    "int": "int",
    "int unsigned": "bigint",
    "bigint": "bigint",
}
_TINYINT = (
    "CASE {} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE try_cast({} AS smallint) END"
    # A column that was added as BOOLEAN while the connector ran comes as one, until that starts again.
)
_MAX_PRECISION = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_BITS = re.compile(r"bit\((\d+)\)")
_FRACTION = re.compile(r"\((\d)\)")
_NOT_NULL = " not null"
_MILLIS = 3
"""Digits of a second up to which Debezium writes a DATETIME in milliseconds."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
_DATE = f"CASE WHEN {{}} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN date_from_unix_date({{}}) END"
_INSTANT = "try_cast({} AS timestamp)"
_UNSIGNED = "cast({} AS decimal(20,0)) + CASE WHEN {} < 0 THEN 18446744073709551616 ELSE 0 END"
"""Debezium gives the 64 bits as those of a signed number."""

_SPATIAL = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection", "vector"),
    }
)
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def not_carried(type_name: str) -> str | None:
    """Why a captured table's column does not come with its rows; None where it does.

    Args:
        type_name: as `information_schema` prints it.
    """
    base = re.split(r"[( ]", type_name, maxsplit=1)[0]
    if base in _SPATIAL:
        return f"Debezium writes a {base} as a structure"
    return None


def column(name: str, type_name: str) -> SourceColumn:
    """The mapping of one column.

    Args:
        type_name: the type as `information_schema.columns` prints it, e.g. `decimal(12,2)`; times that may
            not be NULL end with ` not null`, for Debezium writes their zero otherwise.
    """
    return replace(_mapping(name, type_name), type=type_name, always_sent=True)


def temporal(type_name: str) -> bool:
    """Whether a zero of the type is no time, which is written by whether the column may be NULL."""
    return type_name.startswith(("date", "timestamp"))


def _mapping(name: str, type_name: str) -> SourceColumn:
    required = type_name.endswith(_NOT_NULL)
    text = type_name.removesuffix(_NOT_NULL).replace(" zerofill", "")
    base = re.split(r"[( ]", text, maxsplit=1)[0]
    plain = re.sub(r"\(\d+\)", "", text)  # the display width of an integer
    if plain == "tinyint":
        return SourceColumn(name, "smallint", "string", _TINYINT)
    if plain == "bigint unsigned":
        return SourceColumn(name, "decimal(20,0)", "bigint", _UNSIGNED)
    if base == "year":
        return SourceColumn(name, "int", "int", select="IF({} = 0, 1900, {})")  # as its log has its zero
    if plain in _INTEGERS:
        spark = _INTEGERS[plain]
        return SourceColumn(name, spark, spark)
    if (number := _DECIMAL.match(text)) is not None:
        digits, scale = int(number[1]), int(number[2])
        if digits <= _MAX_PRECISION:
            spark = f"decimal({digits},{scale})"
            return SourceColumn(name, spark, "string", f"try_cast({{}} AS {spark})")
        return SourceColumn(name, "string", "string", select="CAST({} AS CHAR)")
    if base == "float":
        # The database prints six digits, and so a snapshot has them; its log has all.
        return SourceColumn(name, "float", "float", "cast(format_number({}, '0.00000E0') AS float)")
    if base == "double":
        return SourceColumn(name, "double", "double")
    if bits := _BITS.fullmatch(text):
        return _bit(name, int(bits[1]))
    if base in ("date", "datetime", "timestamp"):
        return _time(name, base, text, required=required)
    if base == "time":
        return SourceColumn(name, "bigint", "bigint")
    if base in _BYTES:
        return SourceColumn(name, "binary", "string", "try_to_binary({}, 'base64')")
    if base in _TEXTS:
        return SourceColumn(name, "string", "string")
    return SourceColumn(name, "string", "string", select="CAST({} AS CHAR)")


def _bit(name: str, count: int) -> SourceColumn:
    if count == 1:
        return SourceColumn(name, "boolean", "boolean", select="({} = b'1')")
    # Debezium writes the bytes of the number, the lowest first.
    pairs = "array_join(reverse(split(hex(try_to_binary({}, 'base64')), '(?<=\\\\G..)')), '')"
    decode = f"lpad(conv({pairs}, 16, 2), {count}, '0')"
    return SourceColumn(name, "string", "string", decode, f"LPAD(BIN({{}} + 0), {count}, '0')")


def _time(name: str, base: str, text: str, *, required: bool) -> SourceColumn:
    instead = "'1970-01-01'" if required else "NULL"
    select = f"IF(YEAR({{}}) = 0 OR MONTH({{}}) = 0 OR DAYOFMONTH({{}}) = 0, {instead}, {{}})"
    if base == "date":
        return SourceColumn(name, "date", "int", _DATE, f"CAST({select} AS DATE)")
    select = f"CAST({select} AS DATETIME(6))"
    if base == "timestamp":
        # Its log has the zero as the epoch, which is no TIMESTAMP otherwise.
        zero = None if required else "1970-01-01T00:00:00Z"
        return SourceColumn(name, "timestamp", "string", _INSTANT, select, zero=zero)
    found = _FRACTION.search(text)
    unit = "us" if found is not None and int(found[1]) > _MILLIS else "ms"
    micros = "{}" if unit == "us" else "({} * 1000)"
    decode = (
        f"CASE WHEN {micros} BETWEEN {_FIRST_MICROS} AND {_LAST_MICROS} "
        f"THEN cast(timestamp_micros({micros}) AS timestamp_ntz) END"
    )
    return SourceColumn(name, "timestamp_ntz", "bigint", decode, select, unit=unit)
