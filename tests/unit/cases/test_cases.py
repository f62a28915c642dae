"""Files of cases, and what becomes of their rows, without a JVM."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from headrace.cases.held import Held, halves, one_by_one
from headrace.cases.live import lines, new_name, source_lines
from headrace.cases.model import Cases, Step, cases_of
from headrace.cases.values import image
from headrace.errors import SpecError
from headrace.sources.postgres.types import column
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.table import load_table

ORDERS = TableName("dwd", "orders")
TEXT = """\
cases:
  - name: added
    given:
      dwd.orders:
        - {order_id: 1, amount: 10.00}
        - {order_id: 2, amount: 5.50}
    expect:
      - {user_id: 7, amount: 15.50}
    then:
      - put: {dwd.orders: [{order_id: 1, amount: 1}, {order_id: 3}]}
        delete: {dwd.orders: [{order_id: 2}]}
        expect: []
"""


def layer(tmp_path: Path, name: str = "dws.user_total", source: str = "dwd.orders") -> TableSpec:
    layer, _, table = name.partition(".")
    file = tmp_path / "layers" / layer / f"{table}.sql"
    file.parent.mkdir(parents=True, exist_ok=True)
    key = "" if layer == "stg" else "(PRIMARY KEY (user_id)) "
    file.write_text(
        f"CREATE MATERIALIZED TABLE {name} {key}FRESHNESS = DOWNSTREAM AS SELECT user_id FROM {source}"
    )
    return load_table(file)


def read(spec: TableSpec, text: str) -> Cases:
    spec.path.with_name(f"{spec.path.stem}.cases.yml").write_text(text)
    found = cases_of(spec)
    assert found is not None
    return found


def test_a_file_is_read(tmp_path: Path) -> None:
    spec = layer(tmp_path)
    assert cases_of(spec) is None
    [case] = read(spec, TEXT).cases
    first, then = case.steps
    assert (case.name, case.location.line) == ("added", 2)
    assert [row.values["order_id"] for row in first.put[ORDERS]] == [1, 2] and not first.delete
    assert [row.location.line for row in first.put[ORDERS]] == [5, 6]
    assert list(then.delete) == [ORDERS] and then.expect == ()


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("dwd.orders:", "dwd.order:", r"yml:5:9: `dws.user_total` does not read `dwd.order`\n.*`dwd.orders`"),
        ("given:", "givn:", "yml:3:5: a case has no field `givn`\n.*did you mean `given`"),
        ("  - name: added", "  - about: added", "yml:2:5: a case needs `name`"),
        ("        expect: []", "", "yml:10:9: a step of `then` needs `expect`"),
        ("cases:", "source: {columns: {a: text}, key: [a]}\ncases:", "`dws.user_total` reads no source"),
        ("- {user_id: 7, amount: 15.50}", "- 7", "yml:8:9: a row must be a mapping"),
        ("    expect:\n", "    expect: {\n", "not YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, was: str, becomes: str, says: str) -> None:
    assert was in TEXT
    with pytest.raises(SpecError, match=says):
        read(layer(tmp_path), TEXT.replace(was, becomes, 1))


def test_two_cases_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"two cases are called `added` \(the first in line 2\)"):
        read(layer(tmp_path), TEXT + TEXT.removeprefix("cases:\n"))


def test_a_stg_table_says_what_its_source_is(tmp_path: Path) -> None:
    spec = layer(tmp_path, "stg.orders", "shop.public.orders")
    text = "source:\n  columns: {order_id: bigint, note: text}\n  key: [order_id]\n"
    source = read(spec, text).source
    assert source is not None and source.columns == {"order_id": "bigint", "note": "text"}
    with pytest.raises(SpecError, match=r"yml:3:9: there is no column `order`\n.*did you mean `order_id`"):
        read(spec, text.replace("[order_id]", "[order]"))


def held(tmp_path: Path) -> tuple[Held, Cases]:
    return Held({ORDERS: ("order_id",)}), read(layer(tmp_path), TEXT)


def test_a_row_that_comes_again_keeps_what_is_not_named(tmp_path: Path) -> None:
    rows, cases = held(tmp_path)
    first, then = cases.cases[0].steps
    rows.step(first)
    gone, changed, new = rows.step(then)
    assert gone.after is None and gone.shown.values["amount"] == 5.5
    assert changed.before is not None and changed.after is not None
    assert (changed.before.values["amount"], changed.after.values["amount"]) == (10.0, 1)
    assert new.before is None
    assert {key: row.values.get("amount") for key, row in rows.rows[ORDERS].items()} == {
        ("1",): 1,
        ("3",): None,
    }


def test_a_step_has_one_change_a_key(tmp_path: Path) -> None:
    rows, cases = held(tmp_path)
    first, _ = cases.cases[0].steps
    [one, two] = rows.step(first)
    again = Step({ORDERS: (one.shown, one.shown)}, {ORDERS: (one.shown, two.shown)}, (), first.location)
    back, gone = rows.step(again)
    assert back.before is not None and back.after is not None and back.before.values == back.after.values
    assert gone.after is None and gone.shown.values["order_id"] == 2
    new = type(one.shown)({"order_id": 9}, first.location)
    assert not rows.step(Step({}, {}, (), first.location))
    assert [c.before for c in rows.step(Step({ORDERS: (new, new)}, {}, (), first.location))] == [None]


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("delete: {dwd.orders: [{order_id: 2}]}", "delete: {dwd.orders: [{order_id: 9}]}", "no such row"),
        ("{order_id: 3}", "{amount: 3}", r"lacks its key column `order_id`\n.*its key is \(order_id\)"),
    ],
)
def test_rows_are_known_by_their_key(tmp_path: Path, was: str, becomes: str, says: str) -> None:
    assert was in TEXT
    rows = Held({ORDERS: ("order_id",)})
    [case] = read(layer(tmp_path), TEXT.replace(was, becomes)).cases
    rows.step(case.steps[0])
    with pytest.raises(SpecError, match=says):
        rows.step(case.steps[1])


def test_a_stream_has_each_change_alone_and_ends_with_the_same_rows(tmp_path: Path) -> None:
    rows, cases = held(tmp_path)
    changes = rows.step(cases.cases[0].steps[0])
    batches = list(one_by_one(changes))
    assert all(len(batch) == 1 for batch in batches) and len(batches) == 4
    left = set()
    for [change] in batches:
        left ^= {change.shown.values["order_id"]}
    assert left == {1, 2}
    assert list(halves(changes)) == [[changes[0]], [changes[1]]] and list(halves([])) == []


def test_values_are_sent_as_a_connector_sends_them(tmp_path: Path) -> None:
    types = {
        "id": "bigint", "amount": "numeric(12,2)", "day": "date", "local": "timestamp without time zone",
        "at": "timestamp with time zone", "raw": "bytea", "doc": "jsonb", "none": "text",
    }  # fmt: skip
    text = (
        "cases:\n  - name: a\n    expect:\n      - {id: 1, amount: 2.50, day: 1970-01-02, "
        "local: 1970-01-01 00:00:01, at: 2026-11-20T10:00:00Z, raw: ab, doc: {a: 1}}\n"
    )
    [row] = read(layer(tmp_path), text).cases[0].steps[0].expect
    columns = [column(name, kind) for name, kind in types.items()]
    assert image(row, columns) == (
        '{"id": 1, "amount": "2.5", "day": 1, "local": 1000000, "at": "2026-11-20T10:00:00Z", '
        '"raw": "YWI=", "doc": "{\\"a\\": 1}", "none": null}'
    )
    same = type(row)({"at": "2026-11-20T11:00:00+01:00"}, row.location)
    assert '"at": "2026-11-20T10:00:00Z"' in image(same, columns)
    wrong = type(row)({"day": "soon"}, row.location)
    with pytest.raises(SpecError, match="`day` is a date, which 'soon' is not"):
        image(wrong, columns)


def test_a_case_of_live_rows_is_read_back(tmp_path: Path) -> None:
    spec = layer(tmp_path, "stg.orders", "shop.public.orders")
    source = SourceTable("shop", "public", "orders")
    schema = SourceSchema(
        source, (column("order_id", "bigint"), column("note: x", "numeric(12,2)")), ("order_id",), True
    )
    name = new_name(spec, date(2026, 11, 27))
    given = {"order_id": 1, "note: x": "1.50"}
    case = lines(name, {source: [given]}, [{"order_id": 1, "text": "it's: {é}\n"}])
    found = read(spec, "\n".join([*source_lines(schema), "cases:", *case]) + "\n")
    assert found.source is not None and dict(found.source.columns) == {
        "order_id": "bigint",
        "note: x": "numeric(12,2)",
    }
    [step] = found.cases[0].steps
    assert step.put[source][0].values == given
    assert step.expect[0].values == {"order_id": 1, "text": "it's: {é}\n"}
    assert new_name(spec, date(2026, 11, 27)) == f"{name}_2"
