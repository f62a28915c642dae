"""The one-shot jobs of `deploy/compose.yml`: `shop` fills the source, `register` registers the connectors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.settings import Settings


def main(job: str) -> int:
    """Both may run again and again: what is there is kept."""
    try:
        settings = Settings.load(Path(os.environ.get("HEADRACE_PROJECT", ".")))
        if job == "shop":
            from headrace.demo.shop import create_shop

            create_shop(settings.postgres_dsn(), seed=1)
        else:
            from headrace.sources.connect import register_all

            register_all(settings, on_progress=print)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
