"""Keeping a Delta log short: opening a table reads the last checkpoint and the commits after it."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from deltalake import DeltaTable

from headrace.store.record.commits import log_versions

CHECKPOINT_AFTER = 100
"""Commits after which maintenance writes a checkpoint."""

LOG_SECONDS = 3600.0
"""Age at which entries of a Delta log go: whoever planned with them has read them."""

_ENTRY = re.compile(r"(\d{20})\.(json|crc|checkpoint\..*parquet|checkpoint\.parquet)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


def last_checkpoint(table: Path) -> int:
    """The version of the newest checkpoint, -1 where there is none."""
    hint = table / "_delta_log" / "_last_checkpoint"
    return int(json.loads(hint.read_text())["version"]) if hint.is_file() else -1


def checkpoint(table: Path) -> None:
    """Write a checkpoint where CHECKPOINT_AFTER commits have been made since the last one."""
    versions = log_versions(table)
    if versions and versions[-1] - max(last_checkpoint(table), 0) >= CHECKPOINT_AFTER:
        DeltaTable(str(table)).create_checkpoint()


def clean(table: Path, *, needed: int, seconds: float) -> int:
    """Delete log entries that no version from `needed` on is made of, and that are `seconds` old.

    The newest whole checkpoint at or before `needed` stays, with everything after it.

    Returns:
        Number of files deleted.
    """
    log = table / "_delta_log"
    names = os.listdir(log)  # noqa: PTH208 (a log may have very many entries)
    found = [int(m[1]) for n in names if (m := _CHECKPOINT.fullmatch(n))]
    base = max((v for v in found if v <= needed), default=-1)
    before, deleted = time.time() - seconds, 0
    for name in sorted(names):  # oldest first: what is left after a crash is a whole log
        match = _ENTRY.fullmatch(name)
        if match and int(match[1]) < base and (log / name).stat().st_mtime < before:
            (log / name).unlink()
            deleted += 1
    return deleted
