from __future__ import annotations

import re
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
