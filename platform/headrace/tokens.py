"""The token that the server and its clients share: a file that only its owner reads."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path


def ensure_token(path: Path) -> str:
    """The token in `path`; a new one where there is none, or where others could have read it."""
    try:
        with path.open("rb") as file:
            private = os.fstat(file.fileno()).st_mode & 0o077 == 0
            token = file.read().decode("ascii").strip()
        if private and token:
            return token
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    Path(temporary).replace(path)  # a client reads the whole token or the old one
    return token
