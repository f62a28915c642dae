from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.engine.spark.arrow_query import labels, run_direct
from headrace.planner.sql.direct import Bound, Direct, Value, direct
from headrace.sources.postgres.bulk.columns import CopiedColumn, Inexact, conform, copied, select_list
from headrace.sources.postgres.bulk.record import LoadRecord, forget, load_record
from headrace.sources.postgres.types import column
from headrace.spec import load_project
from headrace.spec.model import SourceTable

ORDERS = SourceTable("shop", "public", "orders")
MICROS = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    "kind",
    [
        *("smallint", "integer", "bigint", "boolean", "real", "double precision", "numeric(12,2)", "text"),
        *("character varying(20)", "bytea", "date", "timestamp with time zone", "uuid", "json", "jsonb"),
        *("timestamp without time zone", "timestamp(3) without time zone", "time without time zone"),
    ],
)
def test_types_that_are_copied(kind: str) -> None:
    assert isinstance(copied(column("a", kind)), CopiedColumn)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "numeric",
            "numeric(50,2)",
            "character(5)",
            "inet",
            "money",
            "interval",
            "integer[]",
            "mood",
            "xml",
        ),
        *("timestamp(3) with time zone", "time with time zone", "time(3) without time zone", "bit(3)"),
    ],
)
def test_types_that_the_connector_must_read(kind: str) -> None:
    why = copied(column("a", kind))
    assert isinstance(why, str) and f"column `a` is a {kind}" in why
    assert isinstance(copied(column("a", "text"), generated=True), str)


def test_names_are_quoted() -> None:
    ways = [copied(column(name, kind)) for name, kind in (('a"b', "text"), ("Ü", "uuid"))]
    assert (
        select_list([w for w in ways if isinstance(w, CopiedColumn)]) == '"a""b" AS "a""b", "Ü"::text AS "Ü"'
    )


def conformed(kind: pa.DataType, values: list[Any], come_as: pa.DataType) -> list[Any]:
    batch = pa.record_batch([pa.array(values, come_as)], names=["v"])
    found: list[Any] = conform(batch, pa.schema([("v", kind)]), ORDERS).column("v").to_pylist()
    return found


def test_awkward_values_stay_as_they_are() -> None:
    nearly_nothing = Decimal("-0.0000000001")
    assert conformed(pa.decimal128(38, 10), ["-0.0000000001", None], pa.string()) == [nearly_nothing, None]
    assert conformed(pa.decimal128(12, 2), ["9999999999.99", "-0.01"], pa.string()) == [
        Decimal("9999999999.99"), Decimal("-0.01"),
    ]  # fmt: skip
    assert conformed(pa.string(), ["", None, 'a\n"b,\\N\t€', "\\N"], pa.string()) == [
        "",
        None,
        'a\n"b,\\N\t€',
        "\\N",
    ]
    assert conformed(pa.binary(), [b"", None, b"\x00\xff"], pa.binary()) == [b"", None, b"\x00\xff"]
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
    assert conformed(MICROS, [last, datetime(1, 1, 1, tzinfo=UTC), None], MICROS)[0] == last
    assert conformed(pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], pa.date32())[0] == date(1, 1, 1)
    infinite = conformed(pa.float32(), [float("inf"), -0.0], pa.float32())
    assert infinite[0] == float("inf") and str(infinite[1]) == "-0.0"


@pytest.mark.parametrize(
    ("kind", "values", "come_as"),
    [
        (pa.decimal128(12, 2), ["nan"], pa.string()),
        (pa.decimal128(12, 2), ["inf"], pa.string()),
        (MICROS, [2**63 - 1], MICROS),  # infinity
        (MICROS, [-(2**63)], MICROS),
        (pa.timestamp("us"), [253_402_300_800_000_000], pa.timestamp("us")),  # the year 10000
        (pa.date32(), [-719_163], pa.date32()),  # the year 0
        (pa.date32(), [2**31 - 1], pa.date32()),
    ],
)
def test_a_value_that_cannot_be_exact_names_its_column(
    kind: pa.DataType, values: list[Any], come_as: pa.DataType
) -> None:
    with pytest.raises(Inexact, match=r"`shop\.public\.orders`: column `v` holds a"):
        conformed(kind, values, come_as)


TYPES = {"id": "bigint", "at": "timestamp", "note": "string"}


def planned(tmp_path: Path, query: str, extra: str = "") -> Direct | None:
    (tmp_path / "layers" / "stg").mkdir(parents=True)
    (tmp_path / "deploy" / "connectors").mkdir(parents=True)
    (tmp_path / "layers" / "stg" / "t.sql").write_text(
        f"CREATE MATERIALIZED TABLE stg.t {extra} PARTITIONED BY (h) "
        "WITH ('partition.fields.h.date-formatter' = 'yyyyMMddHH') FRESHNESS = INTERVAL '10' SECOND AS "
        + query
    )
    (tmp_path / "deploy" / "connectors" / "shop.json").write_text(
        '{"name": "shop", "config": {"topic.prefix": "shop", "table.include.list": "public.t"}}'
    )
    return direct(load_project(tmp_path).table("stg.t"), TYPES)


def test_a_plain_query_is_run_by_arrow(tmp_path: Path) -> None:
    found = planned(
        tmp_path,
        "SELECT id, note AS text, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.t "
        "WHERE date_format(at, 'yyyyMMddHH') >= ${start_date} "
        "AND date_format(at, 'yyyyMMddHH') <= ${end_date} AND (note = 'x')",
    )
    assert found == Direct(
        (("id", Value("id")), ("text", Value("note")), ("h", Value("at", "yyyyMMddHH"))),
        (
            Bound(Value("at", "yyyyMMddHH"), ">=", "1970010100"),
            Bound(Value("at", "yyyyMMddHH"), "<=", "9999010123"),
            Bound(Value("note"), "=", "x"),
        ),
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id + 1 AS id, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.t",
        "SELECT id, date_format(at, 'E') AS h FROM shop.public.t",
        "SELECT id, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.t WHERE note <> ''",
        "SELECT id, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.t WHERE note > id",
        "SELECT id, upper(note) AS h FROM shop.public.t",
    ],
)
def test_any_other_query_is_sparks(tmp_path: Path, query: str) -> None:
    assert planned(tmp_path, query) is None


def test_constraints_are_sparks(tmp_path: Path) -> None:
    extra = "(CONSTRAINT c EXPECT (id > 0) ON VIOLATION DROP ROW)"
    query = "SELECT id, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.t"
    assert planned(tmp_path, query, extra) is None


def test_labels_of_any_year() -> None:
    times = [datetime(1, 1, 1, 0, 59, tzinfo=UTC), None, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]
    chunks = pa.chunked_array([pa.array(times[:2], MICROS), pa.array(times[2:], MICROS)])
    assert labels(chunks, "yyyyMMddHH").to_pylist() == ["0001010100", None, "1969123123"]
    assert labels(chunks, "yyyy-MM-dd HH:mm").to_pylist()[2] == "1969-12-31 23:59"


def test_a_row_whose_condition_is_null_is_left_out() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table({"id": [1, 2, 3], "at": pa.array([at, None, at - timedelta(days=30_000)], MICROS)})
    query = Direct(
        (("id", Value("id")), ("h", Value("at", "yyyy"))), (Bound(Value("at", "yyyy"), ">=", "1970"),)
    )
    assert run_direct(query, rows).to_pylist() == [{"id": 1, "h": "2026"}]


def test_a_record_is_there_until_it_is_forgotten(tmp_path: Path) -> None:
    assert load_record(tmp_path, "shop") is None
    for state in ("LOADING", "LOADED"):
        LoadRecord("shop", "slot", state, lsn=7).save(tmp_path)  # type: ignore[arg-type]
        found = load_record(tmp_path, "shop")
        assert found is not None and (found.state, found.lsn) == (state, 7)
        assert found.complete == (state == "LOADED")
    forget(tmp_path, "shop")
    assert load_record(tmp_path, "shop") is None
