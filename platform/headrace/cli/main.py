"""The command line. Modules that cost time to import are imported by the command that needs them."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli._shared import errors
from headrace.cli.bench import bench
from headrace.cli.project.apply import apply
from headrace.cli.project.clone import clone
from headrace.cli.project.init import init
from headrace.cli.project.plan import plan
from headrace.cli.project.test import test
from headrace.cli.source.psql import psql
from headrace.cli.source.role import source_role
from headrace.cli.stack.demo import demo
from headrace.cli.stack.doctor import doctor
from headrace.cli.stack.down import down
from headrace.cli.stack.logs import logs
from headrace.cli.stack.open import open_
from headrace.cli.stack.report import report
from headrace.cli.stack.status import status
from headrace.cli.stack.up import up
from headrace.cli.table.changes import changes
from headrace.cli.table.check import check
from headrace.cli.table.costs import costs
from headrace.cli.table.dead_letters.drop import dead_letters_drop
from headrace.cli.table.dead_letters.list import dead_letters_list
from headrace.cli.table.dead_letters.replay import dead_letters_replay
from headrace.cli.table.dead_letters.show import dead_letters_show
from headrace.cli.table.erase import erase
from headrace.cli.table.explain import explain
from headrace.cli.table.publish import publish
from headrace.cli.table.quarantine import quarantine
from headrace.cli.table.readers import readers
from headrace.cli.table.refresh import refresh
from headrace.cli.table.resume import resume
from headrace.cli.table.resync import resync
from headrace.cli.table.rewind import rewind
from headrace.cli.table.sql import sql
from headrace.cli.table.suspend import suspend
from headrace.cli.table.verify import verify


class _Group(TyperGroup):
    """Errors leave as one plain line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader (`| head`) has enough; nothing may be written when Python closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(errors.FAILED) from None
        except (Exception, KeyboardInterrupt) as error:
            # typer's own (Exit, Abort, usage errors) end the command as they are.
            if type(error).__module__.partition(".")[0] in ("typer", "click") or errors.debugging():
                raise
            raise SystemExit(errors.show(error)) from None


app = typer.Typer(
    name="headrace",
    cls=_Group,
    help="A database's changes into a layered Spark warehouse: one SQL text as stream, batch and proof.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
dead_letters = typer.Typer(
    help="Messages that could not be applied: look at them, replay or drop them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
source = typer.Typer(
    help="The databases that are followed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for command in (
    demo,
    up,
    down,
    status,
    plan,
    apply,
    sql,
    refresh,
    verify,
    explain,
    changes,
    readers,
    publish,
    suspend,
    resume,
    check,
    costs,
    test,
    quarantine,
    rewind,
    resync,
    erase,
    init,
    clone,
    doctor,
    logs,
    report,
    bench,
):
    app.command()(command)
app.command("open")(open_)
app.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(psql)
dead_letters.command("list")(dead_letters_list)
dead_letters.command("show")(dead_letters_show)
dead_letters.command("replay")(dead_letters_replay)
dead_letters.command("drop")(dead_letters_drop)
app.add_typer(dead_letters, name="dead-letters")
source.command("role")(source_role)
app.add_typer(source, name="source")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def _global(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A database's changes into a layered Spark warehouse: one SQL text as stream, batch and proof."""


def main() -> None:
    """Entry point of `headrace`."""
    # httpx imports its own command line, and rich with it, where it can: a third of the time of `status`.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    if sys.argv[1:2] == ["sql"]:  # Arrow takes numpy along where it can, and needs it for none of its rows
        sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    # What is imported stays: looking through it for garbage is a tenth of the time of a quick command.
    gc.set_threshold(200_000)
    app()


if __name__ == "__main__":
    main()
