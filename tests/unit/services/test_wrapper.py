"""`./headrace` on machines that lack something, and where everything is there already."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.settings import checkout

ROOT = checkout()
assert ROOT is not None
FILES = [
    "headrace",
    "requirements.lock",
    "pyproject.toml",
    "deploy/bootstrap.lock",
    "deploy/ivy.xml",
    "deploy/ivysettings.xml",
    "deploy/jars.lock",
    "platform/headrace/services/bootstrap.py",
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout that was never set up, in a folder with a space."""
    place = tmp_path / "a clone"
    for name in FILES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    return place


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with the shell's tools and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "cat", "cksum", "dirname"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def run(clone: Path, tools: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "headrace", *arguments], env={"PATH": str(tools)}, capture_output=True, text=True, cwd="/"
    )


def test_without_python_it_says_what_to_install(clone: Path, tools: Path) -> None:
    done = run(clone, tools, "demo")
    assert done.returncode == 1
    assert "no Python from 3.11 to 3.13 on the PATH: install one" in done.stderr


def test_once_set_up_it_hands_over_at_once(clone: Path, tools: Path) -> None:
    listed = [clone / name for name in FILES[1:7]]
    joined = b"".join(path.read_bytes() for path in listed)
    checksum = (
        subprocess.run(["cksum"], input=joined, capture_output=True, check=True).stdout.decode().strip()
    )
    for name, text in {
        ".headrace/everything.stamp": f"{clone}\n{checksum}\nhome=",
        ".venv/bin/python": "#!/bin/sh\n",
        ".venv/bin/headrace": '#!/bin/sh\nfor argument do echo "<$argument>"; done\n',
    }.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text)
        (clone / name).chmod(0o755)
    done = run(clone, tools, "sql", "SELECT 1  AS a")
    assert (done.returncode, done.stdout) == (0, "<sql>\n<SELECT 1  AS a>\n")
