"""`python -m headrace.demo.fill`: makes the shop in the source database, for a container engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.demo.shop import create_shop
from headrace.errors import HeadraceError
from headrace.settings import Settings


def main() -> int:
    """May run again and again: a shop that is there is kept."""
    try:
        settings = Settings.load(Path(os.environ.get("HEADRACE_PROJECT", ".")))
        create_shop(settings.postgres_dsn(), seed=1)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
