"""init: a project is made once."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.main import app


def test_init_makes_a_project_once(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["init", str(tmp_path / "new")])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "new" / "layers" / "dws").is_dir()
    assert "connector" in made.stderr
    again = run.invoke(app, ["init", str(tmp_path / "new")])
    assert again.exit_code == 2 and "is a project already" in again.stderr
    empty = run.invoke(app, ["plan", "--project", str(tmp_path / "new")])
    assert empty.exit_code == 1 and "no layer file" in empty.stderr
