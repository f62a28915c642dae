"""test: what tables have for given rows, in every mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._shared.errors import FAILED, UsageError
from headrace.cli._shared.options import Json, Project, load_settings, open_client, tables_here
from headrace.cli._shared.output import note, print_json

if TYPE_CHECKING:
    from headrace.cases.outcome import Outcome


def test(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[T]...",
            help="Tables. Default: all that have cases.",
            show_default=False,
            autocompletion=tables_here,
        ),
    ] = None,
    new: Annotated[
        str | None,
        typer.Option(
            "--new",
            metavar="T",
            help="Write a case of this table from rows of the running stack.",
            show_default=False,
            autocompletion=tables_here,
        ),
    ] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run the case tests, `<table>.cases.yml`, in every mode.

    Each case gives rows to a table's upstreams and names the rows that the table has then; it runs as batch,
    as stream and incrementally. That needs no stack: a Spark of its own runs them. Ends with 1 where one
    fails, and shows the rows that differ.
    """
    if new is not None:
        if tables:
            raise UsageError("--new writes a case and runs none: leave out the tables")
        _write(new, project)
        return
    from headrace.cases.play import Mode
    from headrace.cases.run import find_cases, own_sessions, run
    from headrace.spec import load_project

    settings = load_settings(project)
    declared = load_project(settings.project)
    found = find_cases(declared, tables or ())
    outcomes: list[Outcome] = []
    with own_sessions(settings) as sessions:
        for outcome in run(sessions, declared, found):
            outcomes.append(outcome)
            if not as_json:
                _show(outcome)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if as_json:
        print_json([outcome.as_dict() for outcome in outcomes])
    else:
        cases, passed = len({(o.table, o.case) for o in outcomes}), len(outcomes) - len(failed)
        note(f"{cases} cases in {len(Mode)} modes: {passed} passed, {len(failed)} failed")
    if failed:
        raise typer.Exit(FAILED)


def _show(outcome: Outcome) -> None:
    if outcome.passed:
        print(f"ok      {outcome.table}: {outcome.case} as {outcome.mode}", flush=True)
    else:
        print("FAILED  " + "\n".join(outcome.lines()), flush=True)


def _write(name: str, project: Project) -> None:
    from headrace.cases.live import write_new
    from headrace.spec import load_project

    settings = load_settings(project)
    declared = load_project(settings.project)
    spec = declared.table(name)
    with open_client(project) as client:
        case, path = write_new(settings, declared, spec, client)
    note(f"{case} is in {path}: read what it expects, and give it a name. Next: `headrace test {spec.name}`")
