"""The tutorial's commands, word for word, against a PostgreSQL that is somebody's own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_shop import ROOT

from headrace.services import processes
from headrace.services.programs.postgres import postmaster
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings

pytestmark = pytest.mark.long

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def somebodys(tmp_path: Path) -> Iterator[Settings]:
    """Settings of a stack of which PostgreSQL alone runs."""
    with scratch_settings(tmp_path) as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["postgres"])
            yield settings
        finally:
            stack.down()


def test_every_command_does_what_the_page_says(somebodys: Settings, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())
    assert len(blocks) >= 7
    server = postmaster(somebodys)
    assert server is not None
    with scratch_settings(tmp_path / "warehouse", driver_memory="1g") as settings:
        own = settings.variables()
        for given in ("HEADRACE_PROJECT", "HEADRACE_POSTGRES_URL"):
            own.pop(given, None)
        environment = os.environ | own
        environment |= {
            "HOME": str(tmp_path),
            "PATH": f"{Path(server.exe()).parent}:{environment['PATH']}",
            "DATABASE_URL": somebodys.postgres_dsn(),
        }
        try:
            said = subprocess.run(
                ["bash", "-euxo", "pipefail", "-c", "\n".join(blocks)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            Stack(settings).down()
    assert said.returncode == 0, said.stdout + said.stderr
    assert "city_day: who_moves_takes_old_orders_along as stream" in said.stdout
    assert re.search(r"Turku +336 ", said.stdout) and "Lima" not in said.stdout.partition("Turku")[2]
    assert processes.marked(settings.state) == []
