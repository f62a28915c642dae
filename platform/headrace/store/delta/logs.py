"""Keeping a Delta log short: opening a table reads the last checkpoint and the commits after it."""

from __future__ import annotations

import json
import re
import time

from headrace.storage.location import Location, delta_table, names
from headrace.store.record.commits import log_versions

CHECKPOINT_AFTER = 100
"""Commits after which maintenance writes a checkpoint."""

LOG_SECONDS = 3600.0
"""Age at which entries of a Delta log go: whoever planned with them has read them."""

_ENTRY = re.compile(r"(\d{20})\.(json|crc|checkpoint\..*parquet|checkpoint\.parquet)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


def last_checkpoint(table: Location) -> int:
    """The version of the newest checkpoint, -1 where there is none."""
    hint = table / "_delta_log" / "_last_checkpoint"
    return int(json.loads(hint.read_text())["version"]) if hint.is_file() else -1


def checkpoint(table: Location) -> None:
    """Write a checkpoint where CHECKPOINT_AFTER commits have been made since the last one."""
    versions = log_versions(table)
    if versions and versions[-1] - max(last_checkpoint(table), 0) >= CHECKPOINT_AFTER:
        delta_table(table).create_checkpoint()


def clean(table: Location, *, needed: int, seconds: float) -> int:
    """Delete log entries that no version from `needed` on is made of, and that are `seconds` old.

    The newest whole checkpoint at or before `needed` stays, with everything after it.

    Returns:
        Number of files deleted.
    """
    log = table / "_delta_log"
    entries = names(log)
    found = [int(m[1]) for n in entries if (m := _CHECKPOINT.fullmatch(n))]
    base = max((v for v in found if v <= needed), default=-1)
    before, deleted = time.time() - seconds, 0
    for name in sorted(entries):  # oldest first: what is left after a crash is a whole log
        match = _ENTRY.fullmatch(name)
        if match and int(match[1]) < base and (log / name).stat().st_mtime < before:
            (log / name).unlink()
            deleted += 1
    return deleted
