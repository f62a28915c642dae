"""`python -m headrace.services.launch FILE`: becomes the program that the file describes.

First it ends what is left of an earlier incarnation: a service that is killed may leave children behind (the
warehouse server's JVM holds leases and ports), and its successor must not run beside them.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import signal
import sys
from pathlib import Path

from headrace.services.processes import SERVICE, STACK, end, marked

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replaces this process; returns only where there is no such command."""
    program = json.loads(Path(sys.argv[1]).read_text())
    environment: dict[str, str] = os.environ | program["environment"]
    if left := marked(Path(environment[STACK]), environment[SERVICE]):
        print(f"ending what is left of an earlier {environment[SERVICE]}: {left}", flush=True)
        end(left, grace=10)
    os.chdir(program["directory"])
    if program["user"] is not None:
        account = pwd.getpwnam(program["user"])
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    if sys.platform == "linux":
        # A service must not outlive a supervisor that was killed. Changing the user would undo this.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.Signals[f"SIG{program['stop_signal']}"])
    os.execvpe(program["command"][0], program["command"], environment)


if __name__ == "__main__":
    main()
