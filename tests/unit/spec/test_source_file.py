"""What a source file makes of captured tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.spec.model import TableName
from headrace.spec.source_file import SourceFile, load_source_file, source_files
from headrace.spec.syntax.text import SourceText
from headrace.spec.table import read_table

CAPTURED = {("public", "users"), ("public", "Order-Lines"), ("sales", "users"), ("public", "audit_log")}
RULES = r"""
tables: public\..*, sales\.users
tables.exclude: public\.AUDIT_.*
route:
  - source-table: sales\.(.*)
    sink-table: stg.sales_<>
    replace-symbol: <>
  - source-table: public\.order.*
    sink-table: stg.order_lines
transform:
  - source-table: public\.users
    projection: \*, upper(city) AS city_name
    filter: user_id > 0
  - source-table: .*
    projection: user_id
"""


def written(directory: Path, text: str) -> SourceFile:
    path = directory / "layers" / "stg" / "shop.source.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert source_files(directory) == [load_source_file(path)]
    return load_source_file(path)


def test_an_empty_file_means_every_captured_table(tmp_path: Path) -> None:
    rules = written(tmp_path, "")
    tables = {("public", "users"), ("public", "orders")}
    found = rules.layer_files(tables, {})
    assert list(found) == [TableName("stg", "orders"), TableName("stg", "users")]
    for name, text in found.items():
        spec = read_table(SourceText(tmp_path / "layers" / "stg" / f"{name.table}.sql", text))
        assert spec.name == name and str(spec.source) == f"shop.public.{name.table}"


def test_tables_are_chosen_named_and_cut_by_the_words_of_flink_cdc(tmp_path: Path) -> None:
    found = {str(name): text for name, text in written(tmp_path, RULES).layer_files(CAPTURED, {}).items()}
    assert found.keys() == {"stg.users", "stg.order_lines", "stg.sales_users"}
    assert found["stg.users"].endswith(
        "AS\nSELECT *, upper(city) AS city_name\nFROM shop.public.users\nWHERE user_id > 0\n"
    )
    assert found["stg.sales_users"].endswith("AS\nSELECT user_id\nFROM shop.sales.users\n")
    assert "FROM shop.public.`Order-Lines`\n" in found["stg.order_lines"]


def test_a_captured_table_that_a_stg_table_reads_needs_no_other(tmp_path: Path) -> None:
    rules = written(tmp_path, "tables: public.*")
    taken = {TableName("stg", "people"): ("public", "users"), TableName("stg", "other"): None}
    assert rules.layer_files({("public", "users")}, taken) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "shop.source.yml:1:1: `sales.users` and `public.users` would both be `stg.users`"),
        ("tables: .*lines", "shop.source.yml:1:1: `public.Order-Lines` would be `stg.Order-Lines`"),
        (
            "route:\n  - source-table: public.users\n    sink-table: dwd.users\n",
            "shop.source.yml:2:5: `public.users` would be `dwd.users`",
        ),
        ("tabels: x", "shop.source.yml:1:1: the file has no field `tabels`"),
        ("tables: '('", "shop.source.yml:1:9: `tables` is no expression"),
        ("route:\n  - source-table: x", "shop.source.yml:2:5: a route needs a `sink-table`"),
        ("transform:\n  - filter: x > 1", "a transform needs a `source-table`"),
        ("transform: x", "`transform` must be a list"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    captured = {("public", "users"), ("sales", "users")} if "users" in says else CAPTURED
    with pytest.raises(SpecError) as error:
        written(tmp_path, text).layer_files(captured, {})
    assert says in str(error.value)
