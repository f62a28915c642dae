"""Named points at which a test kills the process or raises, set by `HEADRACE_FAILPOINTS`.

`name=kill` or `name=raise`, with `@n` for the n-th time the point is reached: `flow.after_commit=kill@3`.
Without the variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from headrace.errors import TransientError


def _parse(text: str) -> dict[str, tuple[str, int]]:
    points = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        what, _, count = action.partition("@")
        points[name.strip()] = (what, int(count or 1))
    return points


_POINTS = _parse(os.environ.get("HEADRACE_FAILPOINTS", ""))
_REACHED: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Die or raise here, where the environment says so."""
    if name not in _POINTS:
        return
    _REACHED[name] += 1
    action, count = _POINTS[name]
    if _REACHED[name] == count:
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise TransientError(f"failpoint `{name}`")
