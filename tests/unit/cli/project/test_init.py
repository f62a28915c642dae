"""init: a project is made once, with an example."""

from __future__ import annotations

import json
from pathlib import Path

from repository import ROOT
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.scaffold.files import connector


def test_init_makes_a_project_once(tmp_path: Path) -> None:
    run, new = CliRunner(), tmp_path / "new"
    made = run.invoke(app, ["init", str(new)])
    assert made.exit_code == 0, made.output
    assert f"headrace test --project {new}" in made.stderr
    again = run.invoke(app, ["init", str(new)])
    assert again.exit_code == 2 and "is a project already" in again.stderr
    planned = run.invoke(app, ["plan", "--project", str(new), "--json"])
    assert planned.exit_code == 0, planned.stderr
    assert [t["table"] for t in json.loads(planned.stdout)["tables"]] == ["stg.orders", "dws.orders_day"]
    assert (new / "layers/stg/orders.cases.yml").is_file() and (new / "layers/dwd/.gitkeep").is_file()


def test_a_source_has_the_name_that_it_is_given(tmp_path: Path) -> None:
    run, new = CliRunner(), tmp_path / "new"
    assert run.invoke(app, ["init", str(new), "--source", "shop"]).exit_code == 0
    assert "FROM shop.public.orders" in (new / "layers/stg/orders.sql").read_text()
    assert json.loads((new / "deploy/connectors/shop.json").read_text())["name"] == "shop"
    wrong = run.invoke(app, ["init", str(tmp_path / "other"), "--source", "My Shop"])
    assert wrong.exit_code == 2 and "is no name for a source" in wrong.stderr
    other = run.invoke(app, ["init", str(tmp_path / "other"), "--from", "mysql://me:secret@host/db"])
    assert other.exit_code == 1 and "mysql://me:…@host/db is no URL of PostgreSQL" in other.stderr
    assert not (tmp_path / "other").exists()


def test_a_new_connector_is_as_the_demo_has_it() -> None:
    """But for its name and its tables: what was learned for one counts for the other."""
    shop = json.loads((ROOT / "deploy" / "connectors" / "shop.json").read_text())
    tables = shop["config"]["table.include.list"].split(",")
    assert json.loads(connector("shop", tables)) == shop
