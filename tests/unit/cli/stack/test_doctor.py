"""doctor: what it finds of the machine."""

from __future__ import annotations

import json
import os

from cli_support import Cli
from gateway_support import Gateway


def test_doctor_finds_a_foreign_program_on_a_port(gateway: Gateway, cli: Cli) -> None:
    found = {f["check"]: f for f in json.loads(cli("doctor", "--json", code=1))}
    assert found["python"]["ok"] and found["layers"]["detail"] == "2 tables, 1 sources"
    held = found["gateway_port"]
    assert not held["ok"] and str(gateway.settings.gateway_port) in held["detail"]
    assert str(os.getpid()) in held["detail"] and "headrace.toml" in held["detail"]
