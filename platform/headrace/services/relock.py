"""`python -m headrace.services.relock [FOLDER…]`: lock what `ivy.xml` resolves to, after a change of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.services import runtime


def main(arguments: Sequence[str]) -> int:
    """
    Args:
        arguments: folders with an `ivy.xml`; none for the one of headrace itself.
    """
    for folder in map(Path, arguments or [str(runtime.definition())]):
        try:
            count = runtime.lock(folder, lambda message: None)
        except HeadraceError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{folder}: {count} artifacts")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
