"""up: the rest starts where a connector fails."""

from __future__ import annotations

import pytest
from cli_support import Cli

from headrace.errors import TerminalError
from headrace.services.stack import Stack


def test_up_brings_the_rest_up_where_a_connector_fails(stopped: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def register(_self: Stack, **_more: object) -> list[str]:
        raise TerminalError("the table public.users does not exist")

    monkeypatch.setattr(Stack, "up", lambda _self, only=None, **_more: calls.append(only))
    monkeypatch.setattr(Stack, "register_connectors", register)
    stopped("up", code=1)
    assert calls == [["connect"], None]
    assert stopped.stderr == "headrace: the table public.users does not exist\n"
