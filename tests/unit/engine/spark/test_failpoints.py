from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.spark.failpoints import VARIABLE, arm, failpoint
from headrace.errors import TransientError


@pytest.fixture
def armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "armed"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def test_a_point_acts_once_each_time_it_is_armed(armed: Path) -> None:
    failpoint("here")
    for _ in range(2):
        arm(armed, "here=raise@3,there=raise")
        for _ in range(2):
            failpoint("here")
        with pytest.raises(TransientError, match="failpoint `here`"):
            failpoint("here")
        failpoint("here")
        with pytest.raises(TransientError, match="failpoint `there`"):
            failpoint("there")
    assert armed.read_text() == ""


def test_a_disarmed_point_does_nothing(armed: Path) -> None:
    arm(armed, "here=raise")
    arm(armed, "")
    failpoint("here")


def test_what_follows_a_killed_process_goes_on(armed: Path) -> None:
    arm(armed, "here=kill@2")
    reach = "from headrace.engine.spark.failpoints import failpoint; [failpoint('here') for _ in range(4)]"
    codes = [subprocess.run([sys.executable, "-c", reach], env=os.environ).returncode for _ in range(2)]
    assert codes == [-signal.SIGKILL, 0]
