"""Types of MySQL and MariaDB with their edge values: a column a type, a row a value, and a row of NULLs."""

from __future__ import annotations

TYPES: dict[str, tuple[str, list[str]]] = {
    "a_tinyint": ("tinyint", ["-128", "127"]),
    "a_bool": ("boolean", ["TRUE", "FALSE"]),
    "a_utinyint": ("tinyint unsigned", ["0", "255"]),
    "a_smallint": ("smallint", ["-32768", "32767"]),
    "a_usmallint": ("smallint unsigned", ["65535"]),
    "a_mediumint": ("mediumint", ["-8388608", "8388607"]),
    "a_umediumint": ("mediumint unsigned", ["16777215"]),
    "an_int": ("int", ["-2147483648", "2147483647"]),
    "a_uint": ("int unsigned zerofill", ["4294967295", "7"]),
    "a_bigint": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "a_ubigint": ("bigint unsigned", ["18446744073709551615", "9223372036854775808", "0"]),
    "a_decimal": ("decimal(12,2)", ["-9999999999.99", "0.01", "0"]),
    "a_whole": ("decimal(38,0)", ["-" + "9" * 38]),
    "a_long_decimal": ("decimal(65,30)", ["9" * 35 + "." + "9" * 30, "-1.5"]),
    "a_float": ("float", ["0.333333333333", "-3.4e38", "1.17549e-38", "16777217"]),
    "a_double": ("double", ["0.1", "-1.7976931348623157e308", "5e-324", "0.30000000000000004"]),
    "a_bit": ("bit(1)", ["b'1'", "b'0'"]),
    "some_bits": ("bit(20)", ["b'10000000000000000001'", "b'0'", "b'11111111111111111111'"]),
    "many_bits": ("bit(64)", ["b'" + "1" * 64 + "'", "b'1'"]),
    "a_date": ("date", ["'1000-01-01'", "'9999-12-31'", "'0001-01-01'", "'0000-00-00'", "'2024-02-29'"]),
    "a_datetime": ("datetime", ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'"]),
    "a_datetime3": ("datetime(3)", ["'2026-03-29 02:30:00.123'", "'1969-12-31 23:59:59.999'"]),
    "a_datetime6": ("datetime(6)", ["'2026-10-25 02:30:00.123456'", "'0001-01-01 00:00:00.000001'"]),
    "a_timestamp": ("timestamp NULL", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'"]),
    "a_timestamp6": ("timestamp(6) NULL", ["'2026-10-25 01:30:00.999999'"]),
    "a_time": ("time", ["'-838:59:59'", "'838:59:59'", "'00:00:00'"]),
    "a_time6": ("time(6)", ["'-00:00:00.000001'", "'23:59:59.999999'", "'100:00:00.5'"]),
    "a_year": ("year", ["1901", "2155"]),
    "a_char": ("char(10)", ["'a  '", "''", "'ünïcode'"]),
    "a_varchar": (
        "varchar(200)",
        ["'  blanks  '", "'It''s \\\\ \"quoted\"\\nand broken'", "'😀 emoji'", "''"],
    ),
    "a_latin1": ("varchar(20) CHARACTER SET latin1", ["'grüße'"]),
    "a_text": ("text", ["'__debezium_unavailable_value'", "repeat('x', 60000)"]),
    "a_longtext": ("longtext", ["repeat('é😀', 200000)"]),
    "a_binary": ("binary(4)", ["x'00ff'", "x'01000000'", "x'ffffffff'"]),
    "a_varbinary": ("varbinary(20)", ["x''", "x'00010200'"]),
    "a_blob": ("blob", ["x'ff00'", "repeat(x'00', 70000)"]),
    "an_enum": ("enum('small','it''s','größe')", ["'small'", "'it''s'", "'größe'"]),
    "a_set": ("set('a','b','c')", ["'a,c'", "''", "'a,b,c'"]),
    "a_json": ("json", ['\'{"a": [1, null, "x"], "b": 1.50}\'', "'null'", "'[]'"]),
    'a name with "quotes" & ünicode': ("int", ["1"]),
}
"""Column → its type and SQL of its values."""

REQUIRED: dict[str, tuple[str, list[str]]] = {
    "a_needed_date": ("date NOT NULL", ["'0000-00-00'", "'2020-05-05'"]),
    "a_needed_datetime": ("datetime NOT NULL", ["'0000-00-00 00:00:00'", "'2020-05-05 05:05:05'"]),
    "a_needed_timestamp": ("timestamp NOT NULL", ["'0000-00-00 00:00:00'", "'2020-05-05 05:05:05'"]),
}
"""Those that may not be NULL."""

LEFT_OUT = {"a_point": "point", "a ` in it": "int"}
GENERATED = {
    "a_virtual": "int GENERATED ALWAYS AS (id + 1) VIRTUAL",
    "a_stored": "int GENERATED ALWAYS AS (id * 2) STORED",
}


def create(table: str) -> str:
    every = {**{n: t for n, (t, _) in (TYPES | REQUIRED).items()}, **LEFT_OUT, **GENERATED}
    columns = ", ".join(f"{name(column)} {kind}" for column, kind in every.items())
    return f"CREATE TABLE {table} (id int PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC"


def rows(table: str, first: int) -> list[str]:
    """INSERT statements of all values, keys from `first` on; values of one place together, and NULLs."""
    found = []
    most = max(len(values) for _, values in TYPES.values())
    for place in range(most + 1):
        given = {c: v[place] for c, (_, v) in TYPES.items() if place < len(v)}
        needed = {c: v[place % len(v)] for c, (_, v) in REQUIRED.items()}
        values = {"id": str(first + place), **given, **needed}
        columns = ", ".join(name(c) for c in values)
        found.append(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(values.values())})")
    return found


def name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def updates(table: str, first: int, place: int) -> list[str]:
    """Statements that give the row of one place the values of the next, and back."""
    values = {c: v[(place + 1) % len(v)] for c, (_, v) in TYPES.items()}
    changed = ", ".join(f"{name(c)} = {v}" for c, v in values.items())
    return [f"UPDATE {table} SET {changed} WHERE id = {first + place}"]
