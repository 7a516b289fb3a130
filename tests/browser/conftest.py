"""A real browser on a real service. What the console says, or the content security policy refuses, fails a test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service.servers import Running, running

if TYPE_CHECKING:
    from browsing import Visitor

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Not for the session: while it is open an event loop runs in this thread, which other tests cannot have."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    sync_api.expect.set_options(timeout=30_000)  # Five seconds are short on a busy machine.
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts services, each in a folder of its own; they end after the pages that look at them."""
    with ExitStack() as stack:

        def start(**options: Any) -> Running:
            folder = options.pop("folder", tmp_path)
            return stack.enter_context(running(folder, **options))

        yield start


@pytest.fixture
def visitor(chromium: Any, serve: object) -> Iterator[Visitor]:
    """Comes after `serve`, so that it goes before it."""
    from browsing import Visitor

    visitor = Visitor(chromium)
    yield visitor
    visitor.close()
