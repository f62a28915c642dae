"""Partition labels: what they mean, and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_support import PARTITIONED, load_query

from headrace.errors import SpecError
from headrace.spec import TableSpec
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import FORMATS, bounds, label_range, open_range, parse_label


def partitioned(directory: Path, pattern: str) -> TableSpec:
    clauses = PARTITIONED.replace("yyyyMMddHH", pattern)
    return load_query(directory, "SELECT a FROM dwd.o", clauses=clauses)


@pytest.mark.parametrize(
    ("pattern", "start", "end", "expected"),
    [
        ("yyyy", "2023", "2025", ["2023", "2024", "2025"]),
        ("yyyyMM", "202311", "202402", ["202311", "202312", "202401", "202402"]),
        ("yyyy-MM", "2023-12", "2024-01", ["2023-12", "2024-01"]),
        ("yyyyMMdd", "20240228", "20240301", ["20240228", "20240229", "20240301"]),
        ("yyyy-MM-dd", "2023-02-28", "2023-03-01", ["2023-02-28", "2023-03-01"]),
        ("yyyyMMddHH", "2024123123", "2025010100", ["2024123123", "2025010100"]),
        ("yyyy-MM-dd HH", "2024-01-01 23", "2024-01-02 00", ["2024-01-01 23", "2024-01-02 00"]),
        ("yyyyMMddHHmm", "202401010059", "202401010100", ["202401010059", "202401010100"]),
        (
            "yyyy-MM-dd HH:mm",
            "2024-01-01 00:00",
            "2024-01-01 00:01",
            ["2024-01-01 00:00", "2024-01-01 00:01"],
        ),
        ("yyyyMMdd", "20240101", "20240101", ["20240101"]),
        ("yyyyMMdd", "99991231", "99991231", ["99991231"]),
        ("yyyy", "9998", "9999", ["9998", "9999"]),
    ],
)
def test_a_range_includes_both_ends(
    tmp_path: Path, pattern: str, start: str, end: str, expected: list[str]
) -> None:
    assert label_range(partitioned(tmp_path, pattern), LabelRange(start, end)) == expected


@pytest.mark.parametrize(
    ("pattern", "label", "start", "end"),
    [
        ("yyyy", "2024", datetime(2024, 1, 1), datetime(2025, 1, 1)),
        ("yyyyMM", "202412", datetime(2024, 12, 1), datetime(2025, 1, 1)),
        ("yyyyMMdd", "20240229", datetime(2024, 2, 29), datetime(2024, 3, 1)),
        ("yyyyMMddHH", "2024022923", datetime(2024, 2, 29, 23), datetime(2024, 3, 1)),
        ("yyyyMMddHHmm", "202402292359", datetime(2024, 2, 29, 23, 59), datetime(2024, 3, 1)),
    ],
)
def test_bounds(tmp_path: Path, pattern: str, label: str, start: datetime, end: datetime) -> None:
    expected = (start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
    assert bounds(partitioned(tmp_path, pattern), label) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy", ("1970", "9999")),
        ("yyyyMMdd", ("19700101", "99990101")),
        ("yyyyMMddHH", ("1970010100", "9999010123")),
        ("yyyy-MM-dd HH", ("1970-01-01 00", "9999-01-01 23")),
    ],
)
def test_a_stream_runs_over_everything(tmp_path: Path, pattern: str, expected: tuple[str, str]) -> None:
    assert open_range(partitioned(tmp_path, pattern)) == LabelRange(*expected)


@pytest.mark.parametrize(
    "label",
    ["", "2024", "202401010", "20240101000", "2024-01-01 00", "2024010124", "2024023000",
     "2024130100", " 2024010100", "2024010100\n", "２０２４010100", "0000010100", "'2024010100'"],
)  # fmt: skip
def test_a_label_of_the_wrong_format_is_refused(tmp_path: Path, label: str) -> None:
    spec = partitioned(tmp_path, "yyyyMMddHH")
    with pytest.raises(SpecError) as refused:
        parse_label(spec, label)
    told = str(refused.value)
    assert told.startswith(f"{spec.path}:2:16: '{label}' is no partition of dws.t"), told
    assert "`logdate` has the format yyyyMMddHH" in told
    assert "'2024013109'" in told


def test_a_range_from_end_to_start_is_refused(tmp_path: Path) -> None:
    spec = partitioned(tmp_path, "yyyyMMdd")
    with pytest.raises(
        SpecError, match=rf"{spec.path}:2:16: .* starts at '20240102', after its end '20240101'"
    ):
        label_range(spec, LabelRange("20240102", "20240101"))


def test_a_range_without_end_is_refused(tmp_path: Path) -> None:
    spec = partitioned(tmp_path, "yyyyMMddHHmm")
    with pytest.raises(SpecError, match=r"more than 100,000 partitions of dws\.t"):
        label_range(spec, open_range(spec))


def test_a_table_without_partitions_by_time_has_no_labels(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT a FROM dwd.o", clauses="PARTITIONED BY (city)\n")
    for call in (lambda: parse_label(spec, "20240101"), lambda: open_range(spec)):
        with pytest.raises(SpecError, match=r"dws\.t has no partitions by time") as refused:
            call()
        assert "'partition.fields.city.date-formatter'" in str(refused.value)


@given(st.sampled_from(FORMATS), st.data())
def test_labels_sort_as_time_does(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, data: st.DataObject
) -> None:
    spec = partitioned(tmp_path_factory.getbasetemp() / "labels", pattern)
    step = {"yyyy": 200, "MM": 2000}.get(pattern.replace("-", "")[4:6] or "yyyy", 3000)
    moments = st.datetimes(datetime(1970, 1, 1), datetime(2200 - step // 100, 1, 1))
    moment = data.draw(moments).replace(tzinfo=UTC)
    values = {"yyyy": f"{moment:%Y}", "MM": f"{moment:%m}", "dd": f"{moment:%d}", "HH": f"{moment:%H}",
              "mm": f"{moment:%M}"}  # fmt: skip
    label = pattern
    for field, value in values.items():
        label = label.replace(field, value)
    start, end = bounds(spec, label)
    assert start <= moment < end
    following = label_range(spec, LabelRange(label, label))[0]
    assert following == label
    two = label_range(spec, LabelRange(label, _label_of(pattern, end)))
    assert two == sorted(two) == [label, _label_of(pattern, end)]


def _label_of(pattern: str, moment: datetime) -> str:
    return moment.strftime(
        pattern.replace("yyyy", "%Y")
        .replace("MM", "%m")
        .replace("dd", "%d")
        .replace("HH", "%H")
        .replace("mm", "%M")
    )
