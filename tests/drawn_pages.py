"""Files with diagrams in a real browser: what a reader does with one of them, and what there is to see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "Diagram", "Reader", "launched"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def launched() -> Iterator[Any]:
    """A browser, or the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    sync_api.expect.set_options(timeout=30_000)  # Five seconds are short on a busy machine.
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Reader:
    """Opens a file without any network; no page may complain or ask anybody for anything."""

    def __init__(self, browser: Any, folder: Path, **settings: Any) -> None:
        given = {"viewport": {"width": 1200, "height": 700}, "reduced_motion": "reduce", "offline": True, **settings}
        self.context = browser.new_context(**given)
        self.file = folder / "page.html"
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page: Any = None

    def open(self, document: str, hash_: str = "") -> Diagram:
        self.file.write_text(document, encoding="utf-8")
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(self.file.as_uri() + hash_)
        return Diagram(self.page)

    def close(self) -> None:
        self.context.close()
        assert self.complaints == [], self.complaints
        assert {one.partition("#")[0] for one in self.requests} <= {self.file.as_uri()}


class Diagram:
    """One of the diagrams of a page, by its number."""

    def __init__(self, page: Any, number: int = 0) -> None:
        self.page = page
        self.number = number
        self.host = page.locator("[data-diagram]").nth(number)
        self.details = self.host.locator("#details")
        self.found = self.host.locator("#found")
        self.search = self.host.get_by_role("searchbox")
        self.settled()

    def settled(self) -> None:
        """It has taken its element, and everything is drawn."""
        self.page.wait_for_function(
            """(number) => {
              const host = document.querySelectorAll("[data-diagram]")[number];
              const pane = host.diagram?.pane;
              return host.dataset.ready && pane && !pane.busy && !pane.frame;
            }""",
            arg=self.number,
        )

    def ask(self, function: str, given: object = None) -> Any:
        """What `(diagram, given) => ...` says, asked in the browser."""
        script = (
            f"([number, given]) => ({function})(document.querySelectorAll('[data-diagram]')[number].diagram, given)"
        )
        return self.page.evaluate(script, [self.number, given])

    def place(self, event: str) -> dict[str, float] | None:
        """Where an event was drawn, on the screen; None if it is not in sight."""
        self.settled()
        found: dict[str, float] | None = self.ask(
            """({pane}, wanted) => {
              const box = pane.canvas.getBoundingClientRect();
              const spot = pane.spots.find(({event}) => pane.named(event.lane, event.index) === wanted);
              if (!spot || spot.x < 0 || spot.x > box.width || spot.y < 0 || spot.y > box.height) return null;
              return {x: box.left + spot.x, y: box.top + spot.y};
            }""",
            event,
        )
        return found

    def choose(self, event: str) -> None:
        place = self.place(event)
        assert place is not None, f"{event} is not in sight"
        self.page.mouse.click(place["x"], place["y"])
        self.page.wait_for_function(
            """([number, event]) => {
              const {selection} = document.querySelectorAll("[data-diagram]")[number].diagram;
              return selection.id === event;
            }""",
            arg=[self.number, event],
        )
        self.details.locator(".counts").wait_for()
        self.settled()

    @property
    def chosen(self) -> str | None:
        chosen: str | None = self.ask("({selection}) => selection.id")
        return chosen

    def named(self, role: str) -> list[str]:
        """The events that are drawn with this role, wherever they stand."""
        self.settled()
        names: list[str] = self.ask(
            """({pane}, role) => pane.leaves.flatMap(({shown}) => shown.data.events)
                 .filter((event) => (pane.view().relations?.of(event) ?? "plain") === role)
                 .map((event) => pane.named(event.lane, event.index)).sort()""",
            role,
        )
        return names

    def signs(self) -> dict[str, str]:
        """The role of each event in sight, as it was drawn last."""
        self.settled()
        return dict(
            self.ask("({pane}) => pane.spots.map((one) => [pane.named(one.event.lane, one.event.index), one.role])")
        )

    def colours(self) -> set[tuple[int, int, int]]:
        """All colours of the picture."""
        self.settled()
        numbers = self.ask(
            """({pane: {canvas}}) => {
              const copy = document.createElement("canvas");
              [copy.width, copy.height] = [canvas.width, canvas.height];
              const context = copy.getContext("2d", { willReadFrequently: true });
              context.drawImage(canvas, 0, 0);
              const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
              const seen = new Set();
              for (let at = 0; at < data.length; at += 4) {
                seen.add(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]);
              }
              return [...seen];
            }"""
        )
        return {(one >> 16, (one >> 8) & 255, one & 255) for one in numbers}
