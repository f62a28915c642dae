"""Running a `planner.sql.direct` query over Arrow rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from headrace.planner.sql.direct import Direct, Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARE = {
    ">=": pc.greater_equal,
    "<=": pc.less_equal,
    ">": pc.greater,
    "<": pc.less,
    "=": pc.equal,
}


def run_direct(query: Direct, rows: pa.Table) -> pa.Table:
    """The query's result over `rows`. Times must lie in the years 1 to 9999."""
    known: dict[Value, pa.ChunkedArray] = {}

    def value(of: Value) -> pa.ChunkedArray:
        if of not in known:
            column = rows.column(of.column)
            known[of] = column if of.pattern is None else labels(column, of.pattern)
        return known[of]

    keep = None
    for bound in query.bounds:
        passes = _COMPARE[bound.operator](value(bound.value), bound.text)
        keep = passes if keep is None else pc.and_kleene(keep, passes)
    found = pa.table([value(v) for _, v in query.columns], names=[name for name, _ in query.columns])
    if keep is None or pc.all(pc.fill_null(keep, False)).as_py():
        return found
    return found.filter(keep)


def labels(times: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """`date_format(times, pattern)` in UTC: each distinct hour (or minute) is written once."""
    unit = "minute" if "mm" in pattern else "hour"
    ticks = pc.floor_temporal(times, unit=unit).cast(pa.int64()).combine_chunks()
    coded = ticks.dictionary_encode()
    texts = [None if t is None else _label(pattern, t) for t in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string()).take(coded.indices)])


def _label(pattern: str, micros: int) -> str:
    moment = _EPOCH + timedelta(microseconds=micros)
    fields = {"yyyy": f"{moment.year:04}", "MM": f"{moment.month:02}", "dd": f"{moment.day:02}",
              "HH": f"{moment.hour:02}", "mm": f"{moment.minute:02}"}  # fmt: skip
    for name, text in fields.items():
        pattern = pattern.replace(name, text)
    return pattern
