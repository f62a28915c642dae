"""Taking a port of loopback."""

from __future__ import annotations

import socket

from headrace.errors import TerminalError
from headrace.settings import LOOPBACK, SETTINGS_FILE


def listen(port: int, setting: str) -> socket.socket:
    """A socket that listens there.

    Args:
        setting: what names the port.
    Raises:
        TerminalError: it cannot be had.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise TerminalError(
            f"port {port} cannot be used ({error.strerror}): stop what holds it, or set `{setting}` in "
            f"{SETTINGS_FILE}"
        ) from None
    return listener
