"""`python -m headrace.demo.fill`: makes the shop and the role that follows it, for a container engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.demo.shop import create_shop
from headrace.errors import HeadraceError
from headrace.settings import SOURCE_ROLE, Settings
from headrace.sources.postgres.access.role import make_role


def main() -> int:
    """May run again and again: a shop that is there is kept, and a role."""
    try:
        settings = Settings.load(Path(os.environ.get("HEADRACE_PROJECT", ".")))
        create_shop(settings.postgres_dsn(), seed=1)
        make_role(settings.postgres_dsn(), SOURCE_ROLE, os.environ["HEADRACE_SOURCE_PASSWORD"])
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
