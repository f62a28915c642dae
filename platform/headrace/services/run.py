"""`python -m headrace.services.run SERVICE`: one service in the foreground, for a container engine.

What runs is exactly what `headrace up` runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.services.catalogue import SERVICES
from headrace.settings import Settings


def main(name: str) -> int:
    """Becomes the service; returns only where it cannot."""
    try:
        service = next(service for service in SERVICES.values() if service.name == name)
        program = service.prepare(Settings.load(Path(os.environ.get("HEADRACE_PROJECT", "."))))
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    os.chdir(program.directory)
    os.execvpe(program.command[0], list(program.command), os.environ | program.environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
