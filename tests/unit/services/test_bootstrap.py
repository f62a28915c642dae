from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headrace.services import bootstrap

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("listed", [True, False])
def test_uv_trusts_what_the_system_trusts_where_it_has_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    if listed:
        (folder / "company.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    assert bootstrap.certificates() == ({"UV_SYSTEM_CERTS": "true"} if listed else {})


def test_each_locked_package_has_a_version_and_a_hash() -> None:
    """As pip wants it, which takes the lock without looking for what a package needs."""
    logical = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    packages = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    assert len(packages) > 100
    for package in packages:
        assert re.match(r"[\w.\-]+(\[[\w,\-]+\])?==\S+ .*--hash=sha256:", package), package


def test_pip_takes_a_lock_in_which_one_package_needs_an_extra_of_another(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    wheels = [
        wheel(tmp_path, "asking", "Requires-Dist: asked[more]"),
        wheel(tmp_path, "asked", "Provides-Extra: more"),
    ]
    wheel(tmp_path, "asked", "Provides-Extra: more", version=2)  # which pip looks at first
    lines = [
        f"{path.name.split('-')[0]}==1 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in wheels
    ]
    lock.write_text("".join(lines))
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--find-links", tmp_path]
    done = subprocess.run([*pip, *bootstrap.AS_LOCKED, lock], capture_output=True, text=True)
    assert "Would install asked-1 asking-1" in done.stdout, done.stderr


def wheel(folder: Path, name: str, *metadata: str, version: int = 1) -> Path:
    """An empty package."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        told = "\n".join(("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *metadata, ""))
        file.writestr(f"{name}-{version}.dist-info/METADATA", told)
        file.writestr(
            f"{name}-{version}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr(f"{name}-{version}.dist-info/RECORD", "")
    return path
