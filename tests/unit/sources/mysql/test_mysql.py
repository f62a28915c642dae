"""MySQL's kind of source, as far as no server is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import TerminalError
from headrace.sources.connect import ConnectorFile
from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.sources.mysql.access import VALUES
from headrace.sources.mysql.client import microseconds, quoted
from headrace.sources.mysql.position import SeenOf, SeenTo, literal
from headrace.sources.mysql.server import incomplete, purged
from headrace.sources.mysql.types import column, not_carried
from headrace.sources.part import Part
from headrace.sources.schema import MYSQL, SourceSchema
from headrace.sources.stream.envelope import Event, transaction_id
from headrace.sources.values import misread
from headrace.spec.connector import Connector, load_connector
from headrace.spec.model import SourceTable

EXAMPLE = Path(__file__).resolve().parents[4] / "docs" / "examples" / "mariadb.json"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def event(lsn: int = 1, transaction: str | None = None) -> Event:
    return Event("s.d.t", 0, 0, "{}", "u", None, "{}", lsn, 0, None, b"{}", transaction=transaction)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-838:59:59", -3_020_399_000_000),
        (b"100:00:00.5", 360_000_500_000),
        ("-00:00:00.000001", -1),
        ("00:00:00", 0),
    ],
)
def test_times_of_day_go_beyond_a_day(text: str | bytes, value: int) -> None:
    assert microseconds(text) == value


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        ("tinyint(1)", "smallint"),
        ("int(10) unsigned zerofill", "bigint"),
        ("bigint(20) unsigned", "decimal(20,0)"),
        ("decimal(10,2) unsigned", "decimal(10,2)"),
        ("decimal(65,30)", "string"),
        ("float unsigned", "float"),
        ("double(10,2)", "double"),
        ("bit(1)", "boolean"),
        ("bit(20)", "string"),
        ("datetime not null", "timestamp_ntz"),
        ("timestamp(6)", "timestamp"),
        ("time(3)", "bigint"),
        ("year(4)", "int"),
        ("enum('a,b','c)')", "string"),
        ("varbinary(20)", "binary"),
        ("uuid", "string"),
    ],
)
def test_types(kind: str, spark: str) -> None:
    found = column("c", kind)
    assert (found.spark, found.type) == (spark, kind)
    assert found.unsent is None, "each change has every value"


def test_what_debezium_writes_in_milliseconds_is_told() -> None:
    units = {kind: column("c", kind).unit for kind in ("datetime", "datetime(3)", "datetime(4)")}
    assert units == {"datetime": "ms", "datetime(3)": "ms", "datetime(4)": "us"}
    assert column("c", "timestamp").zero and not column("c", "timestamp not null").zero


def test_structures_are_left_out() -> None:
    assert not_carried("point") and not_carried("geometry") and not not_carried("json")


def test_a_schema_is_known_again_by_the_names_of_its_own_types() -> None:
    table = SourceTable("s", "d", "t")
    schema = SourceSchema(
        table, (column("id", "int"), column("t", "timestamp")), ("id",), True, dialect=MYSQL
    )
    assert SourceSchema.of(table, schema.record()) == schema
    assert schema.record()["dialect"] == "mysql"


def test_a_snapshot_at_a_place_shows_what_was_before() -> None:
    seen = SeenTo(500)
    assert [seen.shows(event(lsn)) for lsn in (499, 500, 501)] == [True, False, False]


def test_a_snapshot_shows_the_transactions_of_its_gtids() -> None:
    seen = SeenOf.read(f"{UUID}:1-5:11,\n{'0' * 8}-1111-2222-3333-444444444444:7")
    shown = {n: seen.shows(event(transaction=f"{UUID}:{n}")) for n in (1, 5, 6, 10, 11, 12)}
    assert shown == {1: True, 5: True, 6: False, 10: False, 11: True, 12: False}
    assert not seen.shows(event(transaction="another:3")) and not seen.shows(event())


def test_ids_of_transactions() -> None:
    assert transaction_id("571:53195832") == "571"
    assert transaction_id("0-223344-14") == "0-223344-14"
    assert transaction_id(f"{UUID}:23") == f"{UUID}:23"


def test_each_row_of_a_part_is_asked_for_once() -> None:
    part = Part("a > 1", ("id", "n"), [(1, "it's"), (2, b"\x00\xff")])
    first, second = part.conditions(quoted, literal)
    assert first == "(a > 1)"
    assert second == "(a > 1) IS NOT TRUE AND (`id`, `n`) IN ((1, 'it\\'s'), (2, x'00ff'))"


def test_a_log_that_was_removed_is_missed_by_who_has_not_read_it() -> None:
    logs = ["mysql-bin.000004", "mysql-bin.000005"]
    assert "`mysql-bin.000003`" in (purged({"file": "mysql-bin.000003"}, logs) or "")
    assert purged({"file": "mysql-bin.000004"}, logs) is None
    assert purged({}, logs) is None, "it has not begun"


def test_a_log_that_lacks_rows_or_columns_is_told() -> None:
    assert not incomplete({"binlog_format": "ROW", "binlog_row_image": "FULL"})
    assert len(incomplete({"binlog_format": "MIXED", "binlog_row_image": "MINIMAL"})) == 2


def test_the_example_is_read_as_it_is_written() -> None:
    config = load_file(EXAMPLE).config
    connector = Connector("store", EXAMPLE, config)
    assert misread(connector, VALUES) == []
    changed = {**config, "time.precision.mode": "connect", "enable.time.adjuster": "true"}
    assert len(misread(Connector("store", EXAMPLE, changed), VALUES)) == 2
    environment = {"HEADRACE_SOURCE_STORE_PASSWORD": "a b", "HEADRACE_SOURCE_KAFKA": "k:1"}
    assert source_dsn(connector, environment) == "mysql://headrace_source:a%20b@127.0.0.1:3306/"


def load_file(path: Path) -> Connector:
    file = ConnectorFile.read(path)
    return Connector(file.name, path, file.config)


def test_other_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"name": "s", "config": {"topic.prefix": "s", "connector.class": "a.OracleConnector"}}')
    with pytest.raises(TerminalError, match=r"s\.json: connector\.class is `a\.OracleConnector`.*Next: take"):
        source_dsn(load_connector(path), {})
    with pytest.raises(TerminalError, match="no database that headrace follows"):
        database("oracle://a")
