"""Takes the picture of two executions side by side again, in a real browser: docs/screenshots/page-compare.png.

    python docs/screenshots.py

Needs playwright and a Chromium. Look at the picture before you commit it: its bytes differ from one Chromium to the
next, so no test compares them. The other pictures beside it were taken by hand.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from beforehand.cli.shop import shop_run
from beforehand.service import Ingest, Store
from pages import ROOT

__all__ = ["main"]

FOLDER: Final = ROOT / "docs" / "screenshots"
SETTLED: Final = "() => document.documentElement.dataset.ready && beforehand.pane.root.dataset.busy === 'false'"
ORDERS: Final = {"good": "causal", "bad": "fifo"}


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """A service of this store; its address."""
    command = [sys.executable, "-m", "beforehand", "serve", "--store", str(store), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 (our own program)
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def take_compare(page: Page, url: str, to: Path) -> None:
    """One day at the shop, with causal order and without: only the second has a failure."""
    page.goto(f"{url}#execution=good&axis=steps")
    page.wait_for_function(SETTLED)
    page.keyboard.press("m")
    page.locator("#against").select_option(label="bad · 18 events")
    page.locator("#choosing").get_by_role("button", name="Compare").click()
    page.locator("#compared").get_by_text("Where they differ").wait_for()
    page.mouse.move(640, 755)  # Where nothing shows that the pointer is there.
    page.wait_for_function("() => beforehand.compare.other.overview.violations === 1")
    page.wait_for_function(SETTLED)
    page.wait_for_timeout(1_000)  # Until what fades has faded.
    page.screenshot(path=to)


def main() -> int:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("docs/screenshots.py: there is no Chromium on this machine", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "store.db") as store:
            for name, order in ORDERS.items():
                run = shop_run(seed=1, customers=1, order=order)
                Ingest(store).report([replace(event, execution=name) for event in run])
        with serving(Path(folder) / "store.db") as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 1280, "height": 760}, reduced_motion="reduce")
            take_compare(context.new_page(), url, FOLDER / "page-compare.png")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
