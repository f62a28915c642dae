"""demo: the options reach the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli


def test_demo_hands_over(stopped: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def run(settings: object, **options: Any) -> int:
        seen.update(options)
        return 1

    monkeypatch.setattr("headrace.demo.demo.run", run)
    stopped(
        "demo",
        "--exit",
        "--json",
        str(tmp_path / "f.json"),
        "--seed",
        "7",
        "--rate",
        "9",
        "--warm-up",
        "5",
        code=1,
    )
    assert seen == {
        "exit_at_end": True,
        "json_file": tmp_path / "f.json",
        "seed": 7,
        "rate": 9.0,
        "warm_up": 5.0,
        "seconds": 60.0,
    }
