"""The demo: a shop, a load on it, and the proof that every table is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.settings import Settings


def run(
    settings: Settings,
    *,
    exit_at_end: bool,
    json_file: Path | None,
    seed: int,
    rate: float,
    warm_up: float,
    seconds: float,
) -> int:
    """Play `headrace demo`; see `headrace.demo.demo.run`."""
    # Imported here: the load generator of this package starts without the stack and the gateway.
    from headrace.demo import demo

    return demo.run(
        settings,
        exit_at_end=exit_at_end,
        json_file=json_file,
        seed=seed,
        rate=rate,
        warm_up=warm_up,
        seconds=seconds,
    )
