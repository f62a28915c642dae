"""`headrace demo`: the whole of headrace in a row, from nothing to the proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.demo.daily import by_the_minute
from headrace.demo.display import Display
from headrace.demo.memory import MemorySampler
from headrace.demo.proof import prove
from headrace.demo.report import Report, versions
from headrace.demo.stage import Stage
from headrace.demo.start import start_everything
from headrace.demo.under_load import load_and_measure
from headrace.errors import HeadraceError
from headrace.gateway.client import GatewayClient
from headrace.services.stack import Stack
from headrace.services.termination import termination_as_interrupt
from headrace.settings import Settings

INTERRUPTED = 130


def run(
    settings: Settings,
    *,
    exit_at_end: bool,
    json_file: Path | None,
    seed: int,
    rate: float,
    warm_up: float,
    seconds: float,
) -> int:
    """Play the demo and tell what it found.

    Args:
        exit_at_end: stop the stack at the end, however the demo ends.
        json_file: where to write the figures, also of a run that failed.
        seed: of the shop (where it does not exist yet) and of the load.
        rate: row changes a second.
        warm_up: seconds of load before anything is measured.
        seconds: of load after that.

    Returns:
        0 where everything was reached and is equal, 130 after Ctrl-C, else 1.
    """
    report = Report(seed=seed, rate=rate)
    display = Display(seconds=report.seconds)
    stack = Stack(settings)
    interrupted = False
    with termination_as_interrupt():
        try:
            with GatewayClient(settings) as client, _memory(stack, report):
                play(Stage(settings, stack, client, display, report), warm_up=warm_up, seconds=seconds)
        except KeyboardInterrupt:
            interrupted = True
            report.problems.append("interrupted")
        except HeadraceError as error:
            report.problems.append(str(error))
        except Exception as error:
            # The figures so far and the stop of the stack matter more than a clean traceback.
            report.problems.append(f"{type(error).__name__}: {error}")
            display.console.print_exception()
        finally:
            if exit_at_end:
                _stop(stack, report, display)
            report.finish()
            if json_file is not None:
                report.write(json_file)
    _tell(settings, report, display, stopped=exit_at_end)
    return 0 if report.ok else INTERRUPTED if interrupted else 1


def play(stage: Stage, *, warm_up: float, seconds: float) -> None:
    stage.report.versions = versions(stage.settings)
    start_everything(stage)
    with by_the_minute(stage):
        load_and_measure(stage, warm_up=warm_up, seconds=seconds)
        prove(stage)


@contextmanager
def _memory(stack: Stack, report: Report) -> Iterator[None]:
    sampler = MemorySampler(lambda: [service.pid for service in stack.status() if service.pid])
    try:
        with sampler:
            yield
    finally:
        report.resident_bytes_peak = sampler.peak


def _stop(stack: Stack, report: Report, display: Display) -> None:
    try:
        with display.step("down", "Stop everything") as say:
            stack.down(on_progress=lambda service, text: say(f"{service}: {text}"))
            say("")
    except HeadraceError as error:
        report.problems.append(f"the stack did not stop: {error}")


def _tell(settings: Settings, report: Report, display: Display, *, stopped: bool) -> None:
    if report.tables:
        display.summary(report, settings.dagster_url)
    for problem in report.problems:
        display.problem(problem)
    if not stopped:
        display.line("What was started stays up: `headrace status` shows it, `headrace down` stops it.")
