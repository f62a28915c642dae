"""changes: a changelog, once and followed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from cli_support import Cli
from gateway_support import Gateway


def test_changes_are_json_lines(cli: Cli, gateway: Gateway) -> None:
    lines = cli("changes", "stg.orders", "--from", "6", "--json").splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1, "_version": 7}, {"id": 2, "_version": 7}]
    assert gateway.warehouse.calls == [("changes", "stg.orders", 6, None)]
    assert cli("changes", "stg.orders").splitlines()[0] == "id=1  _version=1"
    assert len(cli("changes", "stg.orders", "--from", "0").splitlines()) == 2 * 7
    assert cli("changes", "stg.orders", "--from", "snapshot").splitlines()[0] == "id=1  _version=7"
    cli("changes", "stg.orders", "--from", "later", code=2)
    assert "`snapshot` or `latest`" in cli.stderr
    cli("changes", "stg.orders", "--from", "99", code=1)
    assert "are gone" in cli.stderr


def test_follow_goes_on_after_the_last_version_seen(
    cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more_version(_seconds: float) -> None:
        gateway.warehouse.head += 1
        if gateway.warehouse.head == 10:
            raise KeyboardInterrupt

    # In this module alone: the gateway's threads sleep as well.
    monkeypatch.setattr("headrace.subscription.time", SimpleNamespace(sleep=one_more_version))
    cli("changes", "stg.orders", "--follow", code=130)
    starts = [start for _, _, start, _ in gateway.warehouse.calls]
    assert starts == ["LATEST", 7, 8, 8, 9]
