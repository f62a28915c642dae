"""How a connector's file must have values written: by other settings they would come in another form."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.spec.connector import Connector

UNSET = ""
_NAMES = "field.name.adjustment.mode"


def misread(connector: Connector, allowed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What a connector's file must say instead.

    Args:
        allowed: settings with what they may be, `UNSET` where they may be left out; the first is advised.
    """
    config = connector.config
    found = [
        f'"{key}": "{values[0]}" in the connector\'s file; values and places come in another form'
        for key, values in allowed.items()
        if config.get(key, UNSET) not in values
    ]
    if config.get(_NAMES, "none") != "none":
        found.append(f'"{_NAMES}": "none" in the connector\'s file; columns come under other names')
    return found
