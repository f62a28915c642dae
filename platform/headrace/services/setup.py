"""`python -m headrace.services.setup`: what a fresh checkout needs beyond its Python packages."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.services import runtime
from headrace.settings import Settings


def main() -> int:
    """Retrieve the JVM artifacts; one line of progress on a terminal, quiet lines elsewhere."""
    overwrite = sys.stderr.isatty()

    def show(message: str) -> None:
        if overwrite:
            print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)
        elif not message[-1].isdigit():
            print(message, file=sys.stderr, flush=True)

    try:
        runtime.ensure(Settings.load(Path.cwd()).home, show)
    except HeadraceError as error:
        print(f"\n{error}" if overwrite else error, file=sys.stderr)
        return 1
    if overwrite:
        print("\r\033[K", end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
