"""The walls of the code: which package may import which, and how full a folder gets."""

from __future__ import annotations

import ast
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
    # It configures logging, by which all loggers of the process fall silent, for later tests, too.
    monkeypatch.setattr("logging.config.dictConfig", lambda config: None)
    failed = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert failed == os.EX_OK, capsys.readouterr().out


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_folder_is_too_full_to_read(folder: Path) -> None:
    modules = [f.name for f in folder.glob("*.py") if f.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, sorted(modules)


UNIT = ROOT / "tests" / "unit"
OTHERS = {"_TRANSPORT", "_jsc", "_replace"}
"""Names of other projects and of named tuples that only look private."""


@pytest.mark.parametrize("file", sorted(str(f.relative_to(UNIT)) for f in UNIT.rglob("test_*.py")))
def test_tests_use_public_names(file: str) -> None:
    found = private_names(ast.parse((UNIT / file).read_text())) - OTHERS
    assert not found, sorted(found)


def private_names(tree: ast.AST) -> set[str]:
    """Private attributes of anything but `self`, and private names that are imported or replaced."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            found |= {
                a.value for a in node.args[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)
            }
    return {name for name in found if name.startswith("_") and not name.startswith("__")}
