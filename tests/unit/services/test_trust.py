from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from headrace.java import find_java
from headrace.services import trust


def test_java_reads_every_certificate_that_python_trusts(tmp_path: Path) -> None:
    certificates = trust.trusted()
    assert certificates, "this machine trusts nobody"
    [store, _, _] = trust.options(tmp_path)
    keytool = find_java().home / "bin" / "keytool"
    command = [keytool, "-list", "-keystore", store.partition("=")[2], "-storepass", trust.PASSWORD]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"contains {len(certificates)} entr" in listed


def test_a_folder_of_certificates_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = trust.trusted()
    (tmp_path / "empty.pem").write_text("no certificate\n")
    (tmp_path / "one.pem").write_text(ssl.DER_cert_to_PEM_cert(certificates[0]))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert trust.trusted() == [certificates[0]]


def test_where_nothing_is_trusted_java_keeps_its_own_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert trust.options(tmp_path) == []
