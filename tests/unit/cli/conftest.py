"""A project whose services run or do not, and its commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import Cli
from gateway_support import Gateway, free_port, write_project


@pytest.fixture
def cli(gateway: Gateway) -> Cli:
    return Cli(gateway.settings.project)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A project whose services do not run."""
    monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(free_port()))
    return Cli(write_project(tmp_path / "p"))
