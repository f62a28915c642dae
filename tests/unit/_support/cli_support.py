"""Running commands of one project, and what its gateway answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.results import ParityResult


class Cli:
    """Runs commands of one project."""

    def __init__(self, project: Path) -> None:
        self.project = project

    def __call__(self, *arguments: str, code: int = 0, stdin: str | None = None) -> str:
        """stdout of a command that must end with `code`."""
        self.result = CliRunner().invoke(app, [*arguments, "--project", str(self.project)], input=stdin)
        assert self.result.exit_code == code, self.result.output
        return self.result.stdout

    @property
    def stderr(self) -> str:
        return self.result.stderr


def parity(*, equal: bool, **more: Any) -> ParityResult:
    counts = {"missing": 0, "extra": 0} if equal else {"missing": 1, "extra": 1}
    return ParityResult(table="stg.orders", against="batch", equal=equal, rows=9, version=7, **counts, **more)
