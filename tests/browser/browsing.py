"""What a visitor of the page does and sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from beforehand.events import Event
from service.servers import Running

__all__ = ["FEW", "HOSTILE", "MILLISECOND", "Seen", "Serve", "Visitor", "expect"]

Serve = Callable[..., Running]

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"

MILLISECOND = 1_000_000
FEW = [
    Event(process="A", index=1, name="ask", sends=("m",), time=1 * MILLISECOND, attributes={"order": "4711"}),
    Event(process="A", index=2, name="think", time=2 * MILLISECOND),
    Event(process="B", index=1, name="asked", receives=("m",), time=3 * MILLISECOND),
    Event(
        process="B", index=2, name="answer failed", sends=("n",), time=4 * MILLISECOND, attributes={"level": "error"}
    ),
    Event(process="A", index=3, name="done", receives=("n",), time=5 * MILLISECOND),
    Event(process="C", index=1, name="apart", time=6 * MILLISECOND),
]


class Visitor:
    """Opens pages of one service at a time; no page may complain, or ask anybody else for anything."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.complaints: list[str] = []
        self.expected: list[str] = []  # Parts of complaints that are meant.
        self.requests: list[str] = []
        self.failures: list[str] = []
        self.contexts: list[Any] = []

    def open(self, url: str, hash_: str = "", *, ready: bool = True, **context: Any) -> Seen:
        settings = {"viewport": {"width": 1200, "height": 720}, "reduced_motion": "reduce", **context}
        made = self.browser.new_context(**settings)
        self.contexts.append(made)
        page = made.new_page()
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.failures.append(f"{request.url} {request.failure}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(f"{url}/{hash_}")
        seen = Seen(page)
        if ready:
            seen.settled()
        return seen

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        complaints = [one for one in self.complaints if not any(part in one for part in self.expected)]
        assert complaints == [], (complaints, self.failures)
        hosts = {urlsplit(url).hostname for url in self.requests if not url.startswith(("blob:", "data:"))}
        assert hosts <= {"127.0.0.1"}, hosts


class Seen:
    """A page as a visitor has it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pane = page.locator("#stage-main")
        self.canvas = self.pane.locator("canvas")
        self.details = page.locator("#details")

    def settled(self) -> None:
        """Everything that was asked for is here and drawn."""
        expect(self.page.locator("html[data-ready]")).to_have_count(1)
        expect(self.pane).to_have_attribute("data-busy", "false")
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(self.pane).to_have_attribute("data-busy", "false")

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    @property
    def detail(self) -> str:
        return str(self.pane.get_attribute("data-detail"))

    @property
    def drawn(self) -> int:
        return int(self.pane.get_attribute("data-drawn") or 0)

    def place(self, event: str, pane: str = "beforehand.pane") -> dict[str, float] | None:
        """Where an event was drawn, on the screen; None if it was not."""
        found: dict[str, float] | None = self.js(
            f"""() => {{
              const pane = {pane}, box = pane.canvas.getBoundingClientRect();
              const wanted = {json.dumps(event)};
              const spot = pane.spots.find(({{event}}) => pane.named(event.lane, event.index) === wanted);
              return spot ? {{x: box.left + spot.x, y: box.top + spot.y}} : null;
            }}"""
        )
        return found

    def click(self, event: str) -> None:
        place = self.place(event)
        assert place is not None, f"{event} is not drawn"
        self.page.mouse.click(place["x"], place["y"])

    def choose(self, event: str) -> None:
        self.click(event)
        expect(self.details.locator(".counts")).to_be_visible()
        self.settled()

    def roles(self) -> dict[str, str]:
        """What each drawn event is to the chosen one, as it was drawn."""
        return dict(
            self.js(
                "() => beforehand.pane.spots.map((one) => "
                "[beforehand.pane.named(one.event.lane, one.event.index), one.role])"
            )
        )

    def range(self) -> tuple[float, float]:
        low, high = self.js("() => beforehand.pane.camera.range")
        return low, high

    def paper(self) -> list[int]:
        """The colour of a corner of the picture."""
        return self.colours()[0]

    def colours(self) -> list[list[int]]:
        """All colours of the picture below the axis, each once, as one meets them from the left corner on."""
        return list(
            self.js(
                """() => {
                  const canvas = document.querySelector("#stage-main canvas");
                  const copy = document.createElement("canvas");
                  [copy.width, copy.height] = [canvas.width, canvas.height];
                  const context = copy.getContext("2d", { willReadFrequently: true });
                  context.drawImage(canvas, 0, 0);
                  const data = context.getImageData(2, 60, copy.width - 2, copy.height - 60).data;
                  const seen = new Set();
                  for (let at = 0; at < data.length; at += 4) {
                    seen.add(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]);
                  }
                  return [...seen].map((one) => [one >> 16, (one >> 8) & 255, one & 255]);
                }"""
            )
        )

    def hash(self, part: str) -> None:
        """Wait until the address has this."""
        self.page.wait_for_function("(part) => decodeURIComponent(location.hash).includes(part)", arg=part)

    def drop(self, path: Path, name: str | None = None) -> None:
        """Drag a file onto the page."""
        content = list(path.read_bytes())
        self.page.evaluate(
            """([content, name]) => {
              const carried = new DataTransfer();
              carried.items.add(new File([new Uint8Array(content)], name));
              for (const type of ["dragenter", "dragover", "drop"]) {
                const options = { bubbles: true, cancelable: true, dataTransfer: carried };
                document.querySelector("#stage").dispatchEvent(new DragEvent(type, options));
              }
            }""",
            [content, name or path.name],
        )

    @property
    def notice(self) -> Locator:
        return self.page.locator("#notice")
