"""What happened to an upstream, told by its commit records alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.planner.policy.classify import Change, Classified, classify
from headrace.store.record.commits import Commit, newest, records

NOTHING = Commit("dwd.a", "stream", 1, kinds={})
APPEND = Commit("dwd.a", "stream", 2, kinds={"+I": 3, "-D": 0})
UPDATE = Commit("dwd.a", "stream", 3, kinds={"+I": 1, "-U": 2, "+U": 2})
REPLACED = Commit("dwd.a", "backfill", 4, kinds={"+I": 1})
CONFIRMED = Commit("dwd.a", "backfill", 5, kinds={})
OLD = Commit("dwd.a", "stream", 6)


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        ([], Classified(Change.NOTHING, 0)),
        ([NOTHING, CONFIRMED], Classified(Change.NOTHING, 0)),
        ([NOTHING, APPEND, APPEND], Classified(Change.APPEND, 6)),
        ([UPDATE, APPEND], Classified(Change.CHANGES, 8)),
        ([APPEND, REPLACED, UPDATE], Classified(Change.REPLACED, 9)),
        ([APPEND, OLD], Classified(Change.CHANGES, None)),
        ([None], Classified(Change.CHANGES, None)),
    ],
)
def test_classes(commits: list[Commit | None], found: Classified) -> None:
    assert classify(commits) == found


def test_a_reader_that_skips_corrections_sees_none() -> None:
    assert classify([REPLACED], skip_backfill=True) == Classified(Change.NOTHING, 0)
    assert classify([APPEND, REPLACED], skip_backfill=True) == Classified(Change.APPEND, 3)


def test_records_are_read_back_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for commit in (NOTHING, APPEND, UPDATE):
        info = {"commitInfo": {"userMetadata": commit.encode()}}
        (log / f"{commit.version:020d}.json").write_text(json.dumps(info) + "\n")
    assert records(tmp_path, 1, 3) == [APPEND, UPDATE]
    kept = replace(UPDATE, mode="maintenance")
    (log / f"{4:020d}.json").write_text(json.dumps({"commitInfo": {"userMetadata": kept.encode()}}))
    (log / f"{5:020d}.json").write_text(json.dumps({"commitInfo": {"userMetadata": REPLACED.encode()}}))
    assert records(tmp_path, 2, 5) == [UPDATE, REPLACED, None]  # Delta's own versions count maintenance, too
    (log / f"{2:020d}.json").unlink()
    assert records(tmp_path, 0, 3) == [NOTHING, None, UPDATE]
    assert records(tmp_path, 0, 100_000) == [None]
    assert newest(tmp_path, 2) == [REPLACED, kept]
