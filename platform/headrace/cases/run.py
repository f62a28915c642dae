"""Running case tests: a Spark of their own over a scratch folder, or a session that is there."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.cases.model import Case, Cases, cases_file, cases_of
from headrace.cases.outcome import Outcome, difference
from headrace.cases.play import Mode, play
from headrace.cases.sandbox import Sandbox, sandbox
from headrace.engine.spark.sessions import Sessions
from headrace.errors import HeadraceError, SpecError, TerminalError
from headrace.settings import Settings
from headrace.spec import Project
from headrace.spec.model import TableName


def find_cases(project: Project, names: Sequence[str] = ()) -> list[Cases]:
    """The cases of these tables, or of all that have a file, in the order in which data flow.

    Raises:
        SpecError: a file is wrong.
        TerminalError: a named table has none, or no table has.
    """
    wanted = [project.table(name) for name in names]
    for spec in wanted:
        if not cases_file(spec).is_file():
            raise TerminalError(
                f"`{spec.name}` has no cases: there is no {cases_file(spec)}. Next: write it, or let "
                f"`headrace test --new {spec.name}` do it from a running stack's rows"
            )
    found = [cases_of(spec) for spec in project.tables.values() if not wanted or spec in wanted]
    told = [cases for cases in found if cases is not None and cases.cases]
    if not told:
        raise TerminalError(
            f"no table of {project.directory} has cases. Next: `headrace test --new T` writes "
            "layers/<layer>/<table>.cases.yml from a running stack's rows"
        )
    return told


def run_case(sandbox: Sandbox, name: TableName, case: Case, mode: Mode) -> Outcome:
    """Play one case in one mode. What fails is told in the outcome, not raised."""
    begun = time.monotonic()
    root = Path(tempfile.mkdtemp(dir=sandbox.scratch))
    columns = sandbox.planned[name].store.schema.columns
    where, problem, differs, number = str(case.location), "", None, 0
    try:
        for number, (step, rows) in enumerate(play(sandbox, name, case, mode, root), 1):
            differs = difference(step, rows, columns, str(name))
            if differs is not None:
                where = str(step.location)
                counts = f"{len(differs.missing)} rows missing, {len(differs.extra)} too many"
                problem = counts if number == 1 else f"after step {number}: {counts}"
                break
    except SpecError as error:
        where, problem = str(error.location), error.reason + (f" ({error.hint})" if error.hint else "")
    except HeadraceError as error:
        problem = f"after step {number}: {error}" if number else str(error)
    except Exception as error:  # of Spark, about the query
        problem = str(error).strip().splitlines()[0]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Outcome(
        str(name), case.name, mode.value, where, round(time.monotonic() - begun, 3), problem, differs
    )


@contextmanager
def own_sessions(settings: Settings) -> Iterator[Sessions]:
    """A Spark of its own, with what the warehouse's has, that neither needs nor touches a running stack.

    Raises:
        TerminalError: this process has a Spark already, with other settings.
    """
    from pyspark import SparkContext

    from headrace.engine.spark.session import build_session
    from headrace.services import runtime

    if SparkContext._active_spark_context is not None:
        raise TerminalError(
            "this process has a Spark session already, with settings that are not headrace's. Next: run the "
            "cases in a process of their own, `headrace test`"
        )
    runtime.ensure(settings.home)
    with tempfile.TemporaryDirectory(prefix="headrace-spark-") as folder:
        scratch = Path(folder)
        own = settings.model_copy(update={"data": scratch, "spark_connect": False, "driver_memory": "1g"})
        own.state.mkdir(parents=True, exist_ok=True)
        spark = build_session(own)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield Sessions.of(spark)
        finally:
            spark.stop()


def run(sessions: Sessions, project: Project, found: Sequence[Cases]) -> Iterator[Outcome]:
    """Every case in every mode.

    Raises:
        SpecError: the project's tables cannot be planned.
    """
    with sandbox(sessions, project, [cases.table for cases in found]) as within:
        for cases in found:
            for case in cases.cases:
                for mode in Mode:
                    yield run_case(within, cases.table, case, mode)
