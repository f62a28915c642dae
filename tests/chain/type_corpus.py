"""A column of each PostgreSQL type with its edge values, and what they are in Spark."""

from __future__ import annotations

from typing import Any

import psycopg

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"');
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN dear AS price CHECK (value > 100);
CREATE TYPE pair AS (a int, b text);
"""
LAST = "9999-12-31 23:59:59.999999"
CORPUS: dict[str, dict[str, Any]] = {
    # PostgreSQL type: {literal: value as text in Spark}
    "smallint": {"-32768": "-32768"},
    "integer": {"-2147483648": "-2147483648"},
    "bigint": {"9223372036854775807": "9223372036854775807"},
    "boolean": {"true": "true"},
    "real": {"'NaN'": "NaN", "'-Infinity'": "-Infinity", "0.1": "0.1"},
    "double precision": {"'NaN'": "NaN", "'Infinity'": "Infinity", "5e-324": "4.9E-324"},
    "numeric(12,2)": {"-1234567890.12": "-1234567890.12"},
    "numeric(38,18)": {"12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678"},
    "numeric(5,-2)": {"123449": "123400"},
    "numeric": {
        "1e-20": "0.00000000000000000001",
        "123.4500": "123.4500",
        "'NaN'": "NaN",
        "'Infinity'": "Infinity",
        "'-Infinity'": "-Infinity",
    },
    "text": {
        "''": "",
        "E'a\"\\\\\\'\\n\\t€😀e\\u0301'": "a\"\\'\n\t€😀e\u0301",
        "repeat('ü😀', 200000)": None,
    },
    "varchar(20)": {"'x  '": "x  "},
    "char(6)": {"'ab'": "ab    "},
    "bytea": {"'\\x0001ff'": "0001FF", "''": ""},
    "uuid": {"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
    "json": {"'null'": "null", '\'{"b": 1,  "a":2}\'': '{"b": 1,  "a":2}'},
    "jsonb": {"'null'": "null", '\'{"b": 1.50,  "a":2}\'': '{"a": 2, "b": 1.50}'},
    "date": {"'2024-02-29'": "2024-02-29", "'0001-01-01'": "0001-01-01", "'9999-12-31'": "9999-12-31"},
    "timestamp": {
        "'2024-03-10 02:30:00.123456'": "2024-03-10 02:30:00.123456",
        "'1969-12-31 23:59:59.999999'": "1969-12-31 23:59:59.999999",
        "'0001-01-01'": "0001-01-01 00:00:00",
        "'infinity'": LAST,
        "'-infinity'": "0001-01-01 00:00:00",
    },
    "timestamp(3)": {"'2024-03-10 02:30:00.123456'": "2024-03-10 02:30:00.123"},
    "timestamptz": {
        "'2024-11-03 01:30:00.123456-04'": "2024-11-03 05:30:00.123456",
        "'2024-03-10 02:30:00Z'": "2024-03-10 02:30:00",
        "'infinity'": LAST,
        "'-infinity'": "0001-01-01 00:00:00",
    },
    "timestamptz(3)": {"'2024-11-03 01:30:00.1236-04'": "2024-11-03 05:30:00.124"},
    "time": {"'24:00:00'": "86400000000", "'23:59:59.999999'": "86399999999"},
    "time(0)": {"'12:34:56.7'": "45297000000"},
    "timetz": {"'12:34:56.789+05:45'": "06:49:56.789Z", "'00:00:00-12'": "12:00:00Z"},
    "interval": {
        "'1 year 2 months 3 days 04:05:06.789'": "P1Y2M3DT4H5M6.789S",
        "'-1 year 2 days -3.5 seconds'": "P-1Y0M2DT0H0M-3.5S",
        "'25 hours'": "P0Y0M0DT25H0M0S",
        "'0'": "P0Y0M0DT0H0M0S",
    },
    "bit(1)": {"B'1'": "true"},
    "bit(12)": {"B'101010101111'": "101010101111", "B'000000000001'": "000000000001"},
    "money": {"'-1234.56'": "-1234.56"},
    "inet": {"'10.0.0.1/8'": "10.0.0.1/8", "'::1'": "::1"},
    "cidr": {"'10.0.0.0/8'": "10.0.0.0/8"},
    "macaddr": {"'08:00:2b:01:02:03'": "08:00:2b:01:02:03"},
    "int4range": {"'[1,5)'": "[1,5)", "'empty'": "empty"},
    "numrange": {"'[1.5,)'": "[1.5,)"},
    "daterange": {"'[2024-01-01,2024-01-03]'": "[2024-01-01,2024-01-04)"},
    "tsvector": {"'a fat cat'": "'a' 'cat' 'fat'"},
    "oid": {"4294967295": "4294967295"},
    "mood": {"'it''s \"ok\"'": 'it\'s "ok"'},
    "price": {"1.5": "1.50"},
    "dear": {"100.5": "100.50"},
    "positive": {"5": "5"},
    "int[]": {"'{1,NULL,3}'": "[1,null,3]", "'{}'": "[]"},
    "text[]": {'\'{a,NULL,"b\\"c",""}\'': '["a",null,"b\\"c",""]'},
    "numeric(6,2)[]": {"'{1.50,NULL}'": '["1.50",null]'},
    "date[]": {"'{2024-01-01}'": "[19723]"},
    "timestamp[]": {"'{2024-01-01 10:00:00}'": "[1704103200000000]"},
    "timestamptz[]": {"'{2024-01-01 10:00:00Z}'": '["2024-01-01T10:00:00.000000Z"]'},
    "uuid[]": {"'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'": '["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]'},
    "mood[]": {"'{sad}'": '["sad"]'},
    "jsonb[]": {"array['{\"a\": 1}'::jsonb]": '["{\\"a\\": 1}"]'},
    "bytea[]": {"array['\\x01'::bytea]": '["AQ=="]'},
    "boolean[]": {"'{t,f}'": "[true,false]"},
    # not carried
    "pg_lsn": {},
    "int4multirange": {},
    "pair": {},
    "point": {},
    "varbit": {},
}
REFUSED = {
    "numeric(12,2)": "'NaN'",
    "date": "'4714-11-24 BC'",
    "timestamp": "'12000-01-01'",
    "timestamptz": "'4714-11-24 00:00Z BC'",
}
"""Values that Spark's type has not: a dead letter each."""

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")
COLUMNS = {kind: f"c{place}" for place, kind in enumerate(CORPUS)}
ROWS = [
    (COLUMNS[kind], literal, value) for kind, values in CORPUS.items() for literal, value in values.items()
]


def create(dsn: str) -> None:
    """The table of the corpus, with rows. With REPLICA IDENTITY FULL no generated column may be there."""
    with psycopg.connect(dsn, autocommit=True) as source:
        source.execute(TYPES)
        listed = ", ".join(f"{column} {kind}" for kind, column in COLUMNS.items())
        generated = "more int GENERATED ALWAYS AS (id * 2) STORED"
        source.execute(f"CREATE TABLE corpus (id int PRIMARY KEY, {listed}, {generated})")
    insert(dsn, 0, ZONES[0])


def insert(dsn: str, base: int, zone: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as source:
        database = source.info.dbname
        source.execute(f"ALTER DATABASE {database} SET timezone = '{zone}'")
    with psycopg.connect(dsn, autocommit=True) as source:  # in that zone
        for place, (column, literal, _) in enumerate(ROWS):
            source.execute(f"INSERT INTO corpus (id, {column}) VALUES ({base + place}, {literal})")
