"""pytest collects `*.cases.yml`: `pytest layers` runs every case in every mode, each as a test of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.cases.model import Case
    from headrace.cases.play import Mode
    from headrace.cases.sandbox import Sandbox
    from headrace.spec import Project
    from headrace.spec.model import TableSpec

SUFFIX = ".cases.yml"
"""That of `cases.model`, which every run of pytest would have to load."""


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> CasesFile | None:
    """A file of cases in a project's layers."""
    if file_path.name.endswith(SUFFIX) and file_path.parent.parent.name == "layers":
        return CasesFile.from_parent(parent, path=file_path)
    return None


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SANDBOXES in config.stash:
        config.stash[_SANDBOXES].close()


class Failed(Exception):
    """A case that failed: what a person reads of it."""


class CasesFile(pytest.File):
    """One table's."""

    def collect(self) -> Iterable[CaseItem]:
        from headrace.cases.model import cases_of
        from headrace.cases.play import Mode
        from headrace.spec import load_project

        project = load_project(self.path.parent.parent.parent)
        spec = project.table(f"{self.path.parent.name}.{self.path.name.removesuffix(SUFFIX)}")
        cases = cases_of(spec)
        for case in cases.cases if cases is not None else ():
            for mode in Mode:
                item: CaseItem = CaseItem.from_parent(self, name=f"{case.name}[{mode}]")
                item.play(project, spec, case, mode)
                yield item


class CaseItem(pytest.Item):
    """One case in one mode."""

    def play(self, project: Project, spec: TableSpec, case: Case, mode: Mode) -> None:
        """What it is about."""
        self.project, self.spec, self.case, self.mode = project, spec, case, mode

    def runtest(self) -> None:
        from headrace.cases.run import run_case

        sandbox = self.config.stash.setdefault(_SANDBOXES, Sandboxes()).of(self.project, self.spec)
        outcome = run_case(sandbox, self.spec.name, self.case, self.mode)
        if not outcome.passed:
            raise Failed("\n".join(outcome.lines()))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Failed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.location.line - 1, f"{self.spec.name}: {self.name}"


class Sandboxes:
    """One Spark for a whole run, and a sandbox for each table, made by the first test that needs it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._sessions: Any = None
        self._of: dict[Path, Sandbox] = {}

    def of(self, project: Project, spec: TableSpec) -> Sandbox:
        """That of a table.

        Raises:
            SpecError: what is wrong with the project's files.
        """
        from headrace.cases.run import own_sessions
        from headrace.cases.sandbox import sandbox
        from headrace.settings import Settings

        if self._sessions is None:
            self._sessions = self._stack.enter_context(own_sessions(Settings.load(project.directory)))
        if spec.path not in self._of:
            self._of[spec.path] = self._stack.enter_context(sandbox(self._sessions, project, [spec.name]))
        return self._of[spec.path]

    def close(self) -> None:
        """Stop Spark, and remove what was made."""
        self._stack.close()


_SANDBOXES = pytest.StashKey[Sandboxes]()
