"""The report and Great Expectations' Data Docs as files in the project's data, where Dagster points to."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from headrace.declared import load_declared
from headrace.errors import SpecError
from headrace.quality.suites import Suite, suite_of
from headrace.report.gather import Gathered
from headrace.report.page import page
from headrace.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """
    Args:
        html: the page's text.
        data_docs: their first page; None where no table has a suite.
    """

    html: str
    data_docs: Path | None


def write_report(settings: Settings, gathered: Gathered) -> Written:
    """Write the page, and Data Docs of the suites with what they found last. Raises SpecError."""
    settings.report.mkdir(parents=True, mode=0o700, exist_ok=True)
    html = page(gathered)
    settings.report_page.write_text(html, encoding="utf-8")
    suites = _suites(settings)
    if not suites:
        return Written(html, None)
    from headrace.quality.data_docs import write_data_docs

    return Written(html, write_data_docs(settings.data_docs, suites, gathered.checks))


def _suites(settings: Settings) -> dict[str, Suite]:
    project, _ = load_declared(settings)
    found = {}
    for name, spec in project.tables.items():
        try:
            suite = suite_of(spec)
        except SpecError as error:  # of the other tables there are pages all the same
            log.warning("%s", error)
            continue
        if suite is not None and suite.expectations:
            found[str(name)] = suite
    return found
