"""What all commands share: the project, settings, errors as one line, and quick imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Cli
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.services.stack import Stack

HEAVY = {
    "pyspark",
    "dagster",
    "great_expectations",
    "fastapi",
    "uvicorn",
    "sqlalchemy",
    "pandas",
    "deltalake",
}


@pytest.mark.parametrize(
    "command",
    [["sql", "SELECT 1"], ["verify"], ["changes", "x"], ["suspend", "x"]],
)
def test_without_a_server_every_command_says_up_and_3(stopped: Cli, command: list[str]) -> None:
    stopped(*command, code=3)
    assert "`headrace up`" in stopped.stderr and "Traceback" not in stopped.stderr


def test_the_project_is_found_from_below(
    stopped: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(stopped.project / "layers" / "stg")
    found = CliRunner().invoke(app, ["status", "--json"])
    assert json.loads(found.stdout)["project"] == str(stopped.project.resolve())
    monkeypatch.chdir(tmp_path)
    lost = CliRunner().invoke(app, ["status"])
    assert lost.exit_code == 2 and "headrace init" in lost.stderr
    named = CliRunner().invoke(app, ["status", "--project", str(tmp_path / "nowhere")])
    assert named.exit_code == 2 and "nowhere has no layers/" in named.stderr


def test_a_wrong_setting_is_2(stopped: Cli) -> None:
    (stopped.project / "headrace.toml").write_text("gateway_prot = 1\n")
    stopped("status", code=2)
    assert "`gateway_port`" in stopped.stderr


def test_a_mistake_of_headrace_is_one_line_unless_debugging(
    stopped: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "down", lambda _self, **_more: {}["x"])
    stopped("down", code=1)
    assert (
        stopped.stderr.splitlines()[0] == "headrace: KeyError: 'x'" and "HEADRACE_DEBUG=1" in stopped.stderr
    )
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    stopped("down", code=1)
    assert isinstance(stopped.result.exception, KeyError)


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["sql", "SELECT 1"]])
def test_a_client_imports_nothing_heavy(stopped: Cli, arguments: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        "from headrace.cli.main import main\n"
        "atexit.register(lambda: print('LOADED', *sorted({m.partition('.')[0] for m in sys.modules})))\n"
        f"sys.argv = ['headrace', *{arguments!r}]\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=stopped.project, timeout=60
    )
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "headrace" in loaded and not HEAVY & set(loaded)
    assert not {"pyarrow", "sqlglot", "psycopg", "prompt_toolkit"} & set(loaded)


def test_the_version_is_said() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert said.exit_code == 0 and said.stdout.startswith("headrace 0")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("headrace expl", ["explain"]),
        ("headrace explain stg.", ["stg.orders", "stg.users"]),
        ("headrace verify stg.orders stg.u", ["stg.users"]),
        ("headrace explain gone.", []),
    ],
)
def test_the_shell_completes_commands_and_tables(
    stopped: Cli, monkeypatch: pytest.MonkeyPatch, words: str, offered: list[str]
) -> None:
    monkeypatch.chdir(stopped.project)
    asked = {
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    said = CliRunner().invoke(app, prog_name="headrace", env=asked)
    assert said.stdout.split() == offered
