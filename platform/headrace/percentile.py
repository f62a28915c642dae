"""One definition of a percentile, for what runs, the demo and the benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank: always a value that was measured."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
