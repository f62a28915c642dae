"""Named points at which a test kills the process or raises, armed while it runs by a file.

`HEADRACE_FAILPOINTS` names the file, which need not exist. It reads `name=kill` or `name=raise`, with `@n`
for the n-th time from now on that the point is reached, and commas between: `flow.after_commit=kill@3`. A
point that acts is taken out first: the process that is started in place of a killed one goes on. Without the
variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from threading import Lock

from headrace.errors import TransientError

VARIABLE = "HEADRACE_FAILPOINTS"
_LOCK = Lock()


def failpoint(name: str) -> None:
    """Die or raise here, where the file says so."""
    if (file := os.environ.get(VARIABLE)) is None:
        return
    with _LOCK:
        action = _reach(Path(file), name)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action is not None:
        raise TransientError(f"failpoint `{name}`")


def arm(file: Path, points: str) -> None:
    """Replace what the file says, at once; no points disarm all."""
    new = file.with_suffix(".new")
    new.write_text(points)
    new.rename(file)


def _reach(file: Path, name: str) -> str | None:
    """Count, and return what is to be done."""
    points = {}
    with suppress(FileNotFoundError):
        points = dict(item.split("=") for item in file.read_text().split(",") if item)
    if name not in points:
        return None
    action, _, count = points.pop(name).partition("@")
    left = int(count or 1) - 1
    if left:
        points[name] = f"{action}@{left}"
    arm(file, ",".join(f"{point}={what}" for point, what in points.items()))
    return None if left else action
