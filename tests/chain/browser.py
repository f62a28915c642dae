"""Dagster's pages in a headless browser, used by clicks as a person does. Needs Debian's `chromium`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATIENCE_MS = 60_000.0


@dataclass
class Pages:
    """
    Args:
        url: of Dagster.
        page: the browser's one tab.
        shots: folder of screenshots.
    """

    url: str
    page: Page
    shots: Path

    def open(self, path: str) -> None:
        self.page.goto(self.url + path)

    def shot(self, name: str) -> None:
        self.page.screenshot(path=self.shots / f"{name}.png")

    def sees(self, text: str | re.Pattern[str]) -> Locator:
        """Wait until the page shows it."""
        found = self.page.get_by_text(text, exact=True).first
        found.wait_for()
        return found

    def text(self) -> str:
        return self.page.inner_text("body")

    def materialize(self, table: str, partitions: str, count: str) -> None:
        """Launch the batch job over partitions, as the dialog wants them: one, or `[first...last]`.

        Args:
            count: what the dialog then says of them.
        """
        self.open(f"/assets/{table.replace('.', '/')}")
        self.sees("Partitions")  # before it is known that there are any, the button asks for none
        self.page.get_by_role("button", name="Materialize…").click()
        dialog = self.page.get_by_role("dialog")
        asked = dialog.get_by_placeholder(re.compile("^ex: "))
        sure = dialog.get_by_role("button", name="Confirm")  # what it reads was never materialized here
        asked.or_(sure).first.wait_for()
        if sure.is_visible():
            sure.click()
        asked.fill(partitions)
        asked.press("Enter")
        dialog.get_by_text(count, exact=True).wait_for()
        dialog.get_by_role("button", name=re.compile("^Launch")).click()
        dialog.wait_for(state="detached")

    def ends_green(self, target: str) -> None:
        """Wait until the run or backfill that the list of runs shows of a target has succeeded."""
        self.open("/runs")
        row = self.page.locator("[class*=VirtualizedTable_row]").filter(has_text=target)
        # Dagster's daemon looks at backfills twice a minute.
        row.get_by_text("Success", exact=True).wait_for(timeout=3 * PATIENCE_MS)

    def run(self, job: str, config: str) -> None:
        """Launch a job from its launchpad, and wait until it has succeeded."""
        self.open(f"/locations/headrace/jobs/{job}/playground")
        self.page.locator(".CodeMirror").first.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(config)
        self.page.get_by_role("button", name="Launch Run").click()
        self.page.wait_for_url(re.compile("/runs/"))
        self.sees("Success")

    def open_check(self, table: str, check: str) -> None:
        self.open(f"/assets/{table.replace('.', '/')}?view=checks&checkDetail={check}")

    def terminate(self, run: str) -> None:
        """Cancel a run from its page, and wait until it has ended so."""
        self.open(f"/runs/{run}")
        self.page.get_by_role("button", name="Terminate").first.click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("button", name=re.compile("1 run$")).click()
        self.sees("Canceled")


@contextmanager
def pages(url: str, shots: Path) -> Iterator[Pages]:
    """Skips the test where there is no browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no `chromium`: Debian's package of that name")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root may not have Chromium's own sandbox, and there is no display.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(PATIENCE_MS)
        try:
            yield Pages(url, page, shots)
        finally:
            page.screenshot(path=shots / "last.png")
            browser.close()
