"""The command line. Modules that cost time to import are imported by the command that needs them."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from headrace.cli import (
    apply_command,
    bench_command,
    errors,
    follow_command,
    project_commands,
    rewind_command,
    stack_commands,
    table_commands,
)


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
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
dead_letters = typer.Typer(
    help="Look at messages that could not be read.", no_args_is_help=True, rich_markup_mode=None
)

for command in (
    stack_commands.demo,
    stack_commands.up,
    stack_commands.down,
    stack_commands.status,
    project_commands.plan,
    apply_command.apply,
    table_commands.sql,
    table_commands.refresh,
    table_commands.verify,
    table_commands.explain,
    follow_command.changes,
    follow_command.readers,
    table_commands.suspend,
    table_commands.resume,
    table_commands.check,
    rewind_command.rewind,
    project_commands.init,
    stack_commands.doctor,
    bench_command.bench,
):
    app.command()(command)
dead_letters.command("list")(table_commands.dead_letters_list)
app.add_typer(dead_letters, name="dead-letters")


def main() -> None:
    """Entry point of `headrace`."""
    # httpx imports its own command line, and rich with it, where it can: a third of the time of `status`.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    app()


if __name__ == "__main__":
    main()
