"""`python -m headrace.services.register`: registers the connectors, for a container engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.settings import Settings
from headrace.sources.registration import register_all


def main() -> int:
    """May run again and again: what is registered is kept."""
    try:
        register_all(Settings.load(Path(os.environ.get("HEADRACE_PROJECT", "."))), on_progress=print)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
