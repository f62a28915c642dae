"""The benchmark of the demo's tables in its short form: a table that is late threefold fails the run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from running_shop import ROOT

pytestmark = pytest.mark.long


def test_every_table_keeps_thrice_what_it_declares(tmp_path: Path) -> None:
    figures = tmp_path / "chain.json"
    done = subprocess.run(
        [str(ROOT / "headrace"), "bench", "chain", "--quick", "--json", str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout, done.stderr)
    results = {r["name"]: r["value"] for r in json.loads(figures.read_text())["results"]}
    assert done.returncode == 0, done.stdout + done.stderr
    assert results["headrace.equal to PostgreSQL"] is True
    declared = {name.rpartition(".")[0] for name in results if name.endswith(".declared")}
    assert declared == {f"{f.parent.name}.{f.stem}" for f in ROOT.glob("layers/*/*.sql")}
    assert all(0 < results[f"{table}.p50"] <= results[f"{table}.p99"] for table in declared)
    assert results["headrace, warm.changes a second"] > 10
