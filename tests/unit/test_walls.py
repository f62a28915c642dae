"""The walls of the code: which package may import which, and how full a folder gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from importlinter.cli import lint_imports
from repository import ROOT

PRODUCT = ROOT / "platform" / "headrace"
MOST_MODULES = 20
FOLDERS = [
    f
    for root in (PRODUCT, ROOT / "benchmarks")
    for f in [root, *root.rglob("*")]
    if (f / "__init__.py").is_file()
]


def test_packages_import_downward_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "platform"))
    failed = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert failed == os.EX_OK, capsys.readouterr().out


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_folder_is_too_full_to_read(folder: Path) -> None:
    modules = [f.name for f in folder.glob("*.py") if f.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, sorted(modules)
