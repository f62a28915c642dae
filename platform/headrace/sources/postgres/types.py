"""PostgreSQL column types: how Debezium writes them as JSON, and what they become in Spark.

The connector settings this relies on: `decimal.handling.mode=string`, `time.precision.mode=microseconds`,
`binary.handling.mode=base64`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.sources.columns import SourceColumn

_PLAIN = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "boolean": "boolean",
    "bit(1)": "boolean",
    "real": "float",
    "double precision": "double",
}
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_MAX_PRECISION = 38
_CHARACTER = re.compile(r"character\(\d+\)|bpchar")
_BITS = re.compile(r"bit\((\d+)\)")
_MAX_BITS = 64

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
"""What `-infinity` and `infinity` become: Spark has no such times."""

_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MINUS_INFINITE_MICROS, _INFINITE_MICROS = -(2**63), 2**63 - 1
_MINUS_INFINITE_DAY, _INFINITE_DAY = -2_147_472_691, 2_146_033_979
"""As Debezium writes PostgreSQL's infinite times and dates."""

_DATE = (
    f"CASE WHEN {{}} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN date_from_unix_date({{}}) "
    f"WHEN {{}} = {_INFINITE_DAY} THEN date'9999-12-31' WHEN {{}} = {_MINUS_INFINITE_DAY} "
    "THEN date'0001-01-01' END"
)
_TIMESTAMP = (
    f"CASE WHEN {{}} BETWEEN {_FIRST_MICROS} AND {_LAST_MICROS} "
    f"THEN cast(timestamp_micros({{}}) AS timestamp_ntz) WHEN {{}} = {_INFINITE_MICROS} "
    f"THEN timestamp_ntz'{_LAST}' WHEN {{}} = {_MINUS_INFINITE_MICROS} THEN timestamp_ntz'{_FIRST}' END"
)
_INSTANT = (  # the year has four digits, and no sign
    f"CASE WHEN substr({{}}, 5, 1) = '-' THEN try_cast({{}} AS timestamp) WHEN {{}} = 'infinity' "
    f"THEN timestamp'{_LAST}' WHEN {{}} = '-infinity' THEN timestamp'{_FIRST}' END"
)
_NUMBER = (
    "CASE {} WHEN 'NAN' THEN 'NaN' WHEN 'POSITIVE_INFINITY' THEN 'Infinity' "
    "WHEN 'NEGATIVE_INFINITY' THEN '-Infinity' ELSE {} END"
)
_AS_PRINTED = "to_json({}) #>> ARRAY[]::text[]"
"""By the type's own output: a cast to text takes blanks from `char(n)` and adds a mask to `inet`."""

_UTC_TIME = "replace(({} AT TIME ZONE 'UTC')::text, '+00', 'Z')"
_DURATION = (
    "'P' || extract(year from {})::int || 'Y' || extract(month from {})::int || 'M' || "
    "extract(day from {})::int || 'DT' || extract(hour from {})::bigint || 'H' || "
    "extract(minute from {})::int || 'M' || trim_scale(extract(second from {})) || 'S'"
)

_OF_ELEMENTS = {
    "numeric": "e::text",
    "date": "e - date '1970-01-01'",
    "timestamp without time zone": "(extract(epoch from e) * 1000000)::bigint",
    "timestamp with time zone": "to_char(e AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    "time without time zone": "(extract(epoch from e) * 1000000)::bigint",
    "bytea": "translate(encode(e, 'base64'), E'\\n', '')",
    "json": "e::text",
    "jsonb": "e::text",
}
"""PostgreSQL expressions of an array's elements as Debezium writes them, where JSON's own form is another."""

_NOT_SENT = frozenset(
    {
        *(
            "name",
            "tsquery",
            "pg_lsn",
            "xid",
            "xid8",
            "cid",
            "tid",
            "pg_snapshot",
            "txid_snapshot",
            "jsonpath",
        ),
        *("refcursor", "oidvector", "int2vector", "bit varying"),
        *("regclass", "regproc", "regprocedure", "regoper", "regoperator", "regtype", "regrole", "regconfig"),
        *("regdictionary", "regnamespace", "regcollation"),
        *("point", "line", "lseg", "box", "path", "polygon", "circle"),
    }
)
"""Types that Debezium leaves out, or writes so that the value cannot be told again."""


def not_carried(type_name: str, kind: str, *, generated: bool) -> str | None:
    """Why a captured table's column does not come with its rows; None where it does.

    Args:
        type_name: as PostgreSQL's `format_type` prints it, of a domain that of its base type.
        kind: `pg_type.typtype`, likewise.
        generated: PostgreSQL computes it.
    """
    bare = re.sub(r"\(.*?\)", "", type_name)
    element = bare.removesuffix("[]")
    bits = _BITS.fullmatch(type_name)
    if generated:
        return "it is generated, and PostgreSQL does not publish it"
    if kind == "c" or kind == "m" or element in _NOT_SENT or (bits and int(bits[1]) > _MAX_BITS):
        return f"Debezium does not carry a {type_name}"
    if bare.endswith("[]") and element in ("interval", "bit", "money", "time with time zone"):
        return f"Debezium does not carry a {type_name}"
    return None


def column(name: str, type_name: str) -> SourceColumn:
    """The mapping of one column.

    Args:
        type_name: the type as PostgreSQL's `format_type` prints it, e.g. `numeric(12,2)`.

    Types without a Spark counterpart are kept as their text.
    """
    return replace(_mapping(name, type_name), type=type_name)


def _mapping(name: str, type_name: str) -> SourceColumn:
    if type_name in _PLAIN:
        spark = _PLAIN[type_name]
        return SourceColumn(name, spark, spark, select="({} = B'1')" if type_name == "bit(1)" else "{}")
    if numeric := _NUMERIC.fullmatch(type_name):
        digits, scale = int(numeric[1]) - min(0, int(numeric[2])), max(0, int(numeric[2]))
        if digits <= _MAX_PRECISION and scale <= digits:
            spark = f"decimal({digits},{scale})"
            return SourceColumn(
                name, spark, "string", f"try_cast({{}} AS {spark})", "nullif({}, 'NaN'::numeric)"
            )
    if type_name.startswith("numeric") and not type_name.endswith("[]"):
        return SourceColumn(name, "string", "string", _NUMBER, "{}::text")
    if type_name.startswith("time") and not type_name.endswith("[]"):
        return _time(name, type_name)
    if type_name == "date":
        select = _within("{}", "date", "0001-01-01", "9999-12-31")
        return SourceColumn(name, "date", "int", _DATE, select)
    if type_name == "bytea":
        return SourceColumn(name, "binary", "string", "try_to_binary({}, 'base64')")
    if type_name.startswith("interval"):
        return SourceColumn(name, "string", "string", "CASE WHEN {} LIKE 'P%' THEN {} END", _DURATION)
    if bits := _BITS.fullmatch(type_name):
        return SourceColumn(name, "string", "string", _bits(int(bits[1])), "{}::text")
    if type_name == "money":
        return SourceColumn(name, "string", "string", select="{}::numeric::text")
    if _CHARACTER.fullmatch(type_name) or type_name in ("inet", "cidr"):
        return SourceColumn(name, "string", "string", select=_AS_PRINTED)
    if type_name.endswith("[]"):
        return SourceColumn(name, "string", "string", select=_array(type_name.removesuffix("[]")))
    return SourceColumn(name, "string", "string", select="{}::text")


def _time(name: str, type_name: str) -> SourceColumn:
    zoned = type_name.endswith(" with time zone")
    if type_name.startswith("timestamp"):
        kind = "timestamptz" if zoned else "timestamp"
        select = _within("{}", kind, *(t + "Z" if zoned else t for t in (_FIRST, _LAST)))
        if zoned:
            return SourceColumn(name, "timestamp", "string", _INSTANT, select)
        return SourceColumn(name, "timestamp_ntz", "bigint", _TIMESTAMP, select)
    if zoned:
        return SourceColumn(name, "string", "string", select=_UTC_TIME)
    return SourceColumn(name, "bigint", "bigint", select="(extract(epoch from {}) * 1000000)::bigint")


def _within(value: str, kind: str, first: str, last: str) -> str:
    """A PostgreSQL expression: infinite times as the first and the last, others beyond these as NULL."""
    return (
        f"CASE WHEN {value} BETWEEN {kind} '{first}' AND {kind} '{last}' THEN {value} "
        f"WHEN {value} = 'infinity' THEN {kind} '{last}' WHEN {value} = '-infinity' THEN {kind} '{first}' END"
    )


def _bits(count: int) -> str:
    """Debezium writes the bytes of the number, the lowest first."""
    pairs = "array_join(reverse(split(hex(try_to_binary({}, 'base64')), '(?<=\\\\G..)')), '')"
    return f"lpad(conv({pairs}, 16, 2), {count}, '0')"


def _array(element: str) -> str:
    """A PostgreSQL expression of an array as Debezium's JSON, without blanks."""
    plain = re.sub(r"\(.*?\)", "", element)
    if plain not in _OF_ELEMENTS:
        return "array_to_json({})::text"
    made = f"SELECT {_OF_ELEMENTS[plain]} FROM unnest({{}}) WITH ORDINALITY AS u(e, n) ORDER BY n"
    return f"CASE WHEN {{}} IS NOT NULL THEN array_to_json(ARRAY({made}))::text END"
