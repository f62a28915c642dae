"""One supervised program: what to run for a service, and how it wants to be stopped."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.services.status import ServiceName


@dataclass(frozen=True, kw_only=True)
class Program:
    """Command, environment and user go to a file that `launch` reads: the supervisor's own configuration
    can neither quote every value nor keep a password from its log."""

    name: ServiceName
    command: Sequence[str]
    directory: str
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_signal: str = "TERM"
    stop_seconds: int = 30
    stop_group: bool = False

    def description(self) -> str:
        """What `launch` reads."""
        return json.dumps(asdict(self), indent=1)

    def section(self, file: Path, logs: Path) -> str:
        """Its `[program:…]` section. Killing always takes the whole group, asking only where told."""
        digest = hashlib.sha256(self.description().encode()).hexdigest()
        lines = {
            # The supervisor expands `%(…)s`.
            "command": shlex.join([sys.executable, "-m", "headrace.services.launch", str(file)]).replace(
                "%", "%%"
            ),
            # The supervisor restarts what changed by comparing sections.
            "environment": f'HEADRACE_PROGRAM="{digest}"',
            "autostart": "false",
            "autorestart": "true",
            "startsecs": "2",
            "startretries": "5",
            "stopsignal": self.stop_signal,
            "stopwaitsecs": str(self.stop_seconds),
            "stopasgroup": str(self.stop_group).lower(),
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": str(logs / f"{self.name}.log"),
            "stdout_logfile_maxbytes": "20MB",
            "stdout_logfile_backups": "2",
        }
        return f"[program:{self.name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())
