"""A range of partition labels."""

from __future__ import annotations

from headrace.spec.partitions.label_range import LabelRange

DAYS = ["20240101", "20240102", "20240103", None]


def test_both_ends_belong_to_it() -> None:
    assert LabelRange("20240101", "20240102").among(DAYS) == ["20240101", "20240102"]


def test_some_labels_and_no_others() -> None:
    some = LabelRange.exactly({"20240103", "20240101"})
    assert (some.start, some.end, some.among(DAYS)) == ("20240101", "20240103", ["20240101", "20240103"])
    assert "20240102" not in some and None not in some


def test_clipped_to_nothing_it_contains_nothing() -> None:
    days = LabelRange("20240101", "20240102")
    assert days.clip(first="20240102").among(DAYS) == ["20240102"]
    assert days.clip(last="20240101").among(DAYS) == ["20240101"]
    assert days.clip() == days
    assert days.clip(first="20240103").among(DAYS) == []
