"""`python -m headrace.services.register`: registers the connectors, for a container engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.services.first_load import FirstLoad
from headrace.settings import Settings
from headrace.sources.registration import register_all


def main() -> int:
    """May run again and again: what is registered is kept. The warehouse server must run."""
    try:
        settings = Settings.load(Path(os.environ.get("HEADRACE_PROJECT", ".")))
        load = FirstLoad(settings, start=lambda: None, report=print)
        register_all(settings, on_progress=print, load=load)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
