"""A gateway that answers from memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_support import Gateway, serve


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with serve(tmp_path) as gateway:
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(gateway.settings.gateway_port))
        gateway.warehouse.go_on.set()
        yield gateway
