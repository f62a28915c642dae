"""The certificates that this machine trusts, for a Java that brings its own list.

A company's proxy or mirror has a certificate that the system trusts and a packaged Java does not know. Python
asks the system (or `SSL_CERT_FILE`, `SSL_CERT_DIR`), so what it finds is handed on.
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PASSWORD = "changeit"
"""Java's own for such lists: it guards nothing, the certificates are public."""

_MAGIC, _VERSION, _CERTIFICATE = 0xFEEDFEED, 2, 2


def trusted() -> list[bytes]:
    """Certificates (DER) of the authorities that Python trusts; none where the system has no list."""
    context = ssl.create_default_context()
    if not context.get_ca_certs():  # a folder of certificates is read only when one of them is asked for
        folder = ssl.get_default_verify_paths().capath
        for file in sorted(Path(folder).iterdir()) if folder else ():
            with suppress(ssl.SSLError, OSError):
                context.load_verify_locations(cafile=file)
    return context.get_ca_certs(binary_form=True)


def write(certificates: Iterable[bytes], path: Path) -> None:
    """Write them as a Java key store, in the format that every Java reads (JKS).

    The layout is that of OpenJDK's `sun.security.provider.JavaKeyStore`.
    """
    entries = [
        struct.pack(">I", _CERTIFICATE) + _text(f"trusted-{n}") + struct.pack(">Q", 0)  # made at the epoch
        + _text("X.509") + struct.pack(">I", len(certificate)) + certificate
        for n, certificate in enumerate(certificates)
    ]  # fmt: skip
    body = struct.pack(">III", _MAGIC, _VERSION, len(entries)) + b"".join(entries)
    digest = hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    path.write_bytes(body + digest.digest())


def options(folder: Path) -> list[str]:
    """Options for a JVM that trusts what Python trusts; none where that is not known.

    Args:
        folder: where the list is written.
    """
    certificates = trusted()
    if not certificates:
        return []
    path = folder / "trusted.jks"
    write(certificates, path)
    store = f"-Djavax.net.ssl.trustStore={path}"
    return [store, "-Djavax.net.ssl.trustStoreType=JKS", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
