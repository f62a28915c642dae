"""What commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.encoding import encode

if TYPE_CHECKING:
    import pyarrow as pa


def note(message: str) -> None:
    """A line for the person, beside the output: to stderr."""
    print(message, file=sys.stderr, flush=True)


def print_json(value: object, *, line: bool = False) -> None:
    """The value as JSON: indented, or one line of JSON Lines."""
    indent = None if line else 2
    print(json.dumps(encode(value), indent=indent, ensure_ascii=False, allow_nan=False), flush=True)


def cell(value: object) -> str:
    """A value as text on one line."""
    encoded = encode(value)
    if encoded is None:
        return "–"
    text = encoded if isinstance(encoded, str) else json.dumps(encoded, ensure_ascii=False)
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def print_columns(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under headers, columns aligned; numbers to the right."""
    kept = [list(row) for row in rows]
    texts = [[cell(value) for value in row] for row in kept]
    numeric = [
        all(isinstance(row[i], int | float | None) for row in kept) and bool(kept)
        for i in range(len(headers))
    ]
    widths = [max([len(h), *(len(row[i]) for row in texts)]) for i, h in enumerate(headers)]
    for row in [list(headers), *texts]:
        cells = (t.rjust(w) if n else t.ljust(w) for t, w, n in zip(row, widths, numeric, strict=True))
        print("  ".join(cells).rstrip())


def print_rows(rows: pa.Table, *, as_json: bool) -> None:
    """A query's rows. JSON is a list of objects with exact values."""
    names = rows.column_names
    if as_json:
        print_json(records(rows))
        return
    columns = [column.to_pylist() for column in rows.columns]
    print_columns(names, zip(*columns, strict=True))
    note(f"({rows.num_rows:,} row{'' if rows.num_rows == 1 else 's'})")


def records(rows: pa.Table) -> list[dict[str, object]]:
    """The rows as objects. Refuses two columns of one name, as an object can hold only one of them."""
    names = rows.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        from headrace.cli._shared.errors import UsageError

        raise UsageError(f"two columns are named `{twice[0]}`: give one of them an alias")
    found: list[dict[str, object]] = rows.to_pylist()
    return found


def print_records(rows: Sequence[Mapping[str, object]]) -> None:
    """Objects as columns, by the names that any of them has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    print_columns(names, [[row.get(name) for name in names] for row in rows])


def print_result(result: Any) -> None:
    """A statement's result: columns where it has some, else JSON."""
    if isinstance(result, list) and all(isinstance(r, dict) for r in result):
        print_records(result)
        note(f"({len(result):,} row{'' if len(result) == 1 else 's'})")
    elif isinstance(result, dict):
        print_columns(("", ""), list(result.items()))
    else:
        print_json(result)


def moment(at: str | None) -> str | None:
    """A time of JSON to the second, in UTC."""
    return at and at[:19].replace("T", " ")
