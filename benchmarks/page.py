"""The page in a real browser, on a history of a million events: how soon it is painted, and how it moves.

    python -m benchmarks.page [EVENTS] [--folder FOLDER]

The same events are looked at twice: in a store, and in the history directory that the pipeline makes of them
(`serve --open`). Both are made once per folder (minutes for a million events, and Spark). Needs playwright and a
Chromium. Frames are measured in the page by `requestAnimationFrame` while a pointer drags and a wheel turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

from beforehand.formats import write_events
from beforehand.service import Ingest, Store
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.service_store import PROCESSES, reports

__all__ = ["main"]

BATCH: Final = 5_000
OPENINGS: Final = 5
DIRECTORY: Final = ", a history directory"  # Of rows; those without it are of a store.
SETTLED: Final = "() => document.documentElement.dataset.ready && beforehand.pane.root.dataset.busy === 'false'"

# Frame times in ms while something goes on, and the longest piece of work that blocked the page.
RECORD: Final = """() => {
  const frames = [];
  let last = performance.now(), on = true;
  const tick = (now) => { frames.push(now - last); last = now; if (on) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  globalThis.recorded = () => { on = false; return frames.slice(1); };
}"""


class Seen(NamedTuple):
    """What one service was seen to do."""

    openings: list[tuple[float, float]]
    moves: list[dict[str, Any]]
    heap: float


def store_of(folder: Path, events: int) -> None:
    """A store with this many events in `folder`, unless it is there."""
    done = folder / f"{events}.done"
    if done.exists():
        return
    with Store(folder / "store.db") as store:
        ingest = Ingest(store)
        batch = []
        for event in reports(events, clocks=False):
            batch.append(event)
            if len(batch) == BATCH:
                ingest.report(batch)
                batch = []
        ingest.report(batch)
    done.touch()


def directory_of(folder: Path, events: int) -> None:
    """The history directory of the same events in `folder`, unless it is there."""
    done = folder / f"{events}.analyzed"
    if done.exists():
        return
    file = folder / "events.jsonl.gz"
    write_events(reports(events, clocks=False), file)
    command = [sys.executable, "-m", "beforehand", "analyze", str(file), "--to", str(folder / "history")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    file.unlink()
    done.touch()


@contextmanager
def serving(*what: str) -> Iterator[str]:
    """`beforehand serve` as a process; its address."""
    command = [sys.executable, "-m", "beforehand", "serve", *what, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def measured(page: Page, url: str, do: str) -> dict[str, Any]:
    """Frames of one way of moving, from a fresh view."""
    page.goto(f"{url}#")
    page.reload()
    page.wait_for_function(SETTLED, timeout=60_000)
    box = page.locator("#stage-main canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4
    page.mouse.move(x, y)
    if do == "pan near":
        page.evaluate("() => beforehand.pane.zoom(1500)")
        page.wait_for_function(SETTLED, timeout=60_000)
    page.evaluate(RECORD)
    if do.startswith("pan"):
        page.mouse.down()
        for step in range(60):
            page.mouse.move(x - 8 * step, y)
        page.mouse.up()
    else:
        for step in range(60):
            page.mouse.wheel(0, -90 if step < 45 else 90)
    frames: list[float] = page.evaluate("() => recorded()")
    drawn = page.evaluate("() => beforehand.pane.drawn")
    settled = time.perf_counter()
    page.wait_for_function(SETTLED, timeout=60_000)
    ordered = sorted(frames)
    return {
        "what": do,
        "frames": len(frames),
        "median": statistics.median(frames),
        "p95": ordered[int(len(ordered) * 0.95)],
        "longest": ordered[-1],
        "drawn": drawn,
        "rest": time.perf_counter() - settled,
    }


def painted(page: Page, url: str) -> tuple[float, float]:
    """Seconds until the first picture with events, and until all of it is there."""
    page.goto("about:blank")
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_function("() => globalThis.beforehand?.pane.drawn > 100", timeout=60_000)
    first = time.perf_counter() - start
    page.wait_for_function(SETTLED, timeout=60_000)
    return first, time.perf_counter() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page")
    parser.add_argument("events", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--folder", type=Path)
    rest, to = target(arguments)
    given = parser.parse_args(rest)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("benchmarks.page: there is no Chromium on this machine", file=sys.stderr)
        return 2
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        store_of(folder, given.events)
        directory_of(folder, given.events)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            seen = {
                "": look(browser, "--store", str(folder / "store.db")),
                DIRECTORY: look(browser, "--open", str(folder / "history")),
            }
            version = browser.version
            browser.close()
    return deliver(report(given.events, seen, version), to)


def look(browser: Browser, *what: str) -> Seen:
    """Open the page of this service some times, and move through it."""
    with serving(*what) as url:
        page = browser.new_page(viewport={"width": 1440, "height": 860})
        openings = [painted(page, url) for _ in range(OPENINGS)]
        moves = [measured(page, url, do) for do in ("pan far", "zoom", "pan near")]
        heap = page.evaluate("() => performance.memory.usedJSHeapSize / 2 ** 20")
        page.close()
    return Seen(openings, moves, heap)


def report(events: int, looks: Mapping[str, Seen], chromium: str) -> Report:
    opened = {
        f"{which}{what}": times
        for what, seen in looks.items()
        for which, times in (("first", seen.openings[:1]), ("later", seen.openings[1:]))
    }
    shown = tuple(
        Row((which,), tuple(Figure.of((one[at] for one in times), digits=2) for at in (0, 1)))
        for which, times in opened.items()
    )
    moved = tuple(
        Row(
            (f"{one['what']}{what}",),
            (
                Figure(one["frames"]),
                *(Figure.of([one[key]], digits=1) for key in ("median", "p95", "longest")),
                Figure(one["drawn"]),
                Figure.of([one["rest"]], digits=2),
            ),
        )
        for what, seen in looks.items()
        for one in seen.moves
    )
    heaps = " and ".join(f"{seen.heap:.0f} MiB" for seen in looks.values())
    made = report_of(
        "page",
        [
            Section(
                "Opening",
                "Seconds from the address to the first picture with events, and until all of it is there. The first "
                "opening finds the service just started.",
                Table(
                    "openings",
                    ("opening", "first picture, s", "all of it, s"),
                    shown,
                    median_of(OPENINGS - 1, "The first opening is one run."),
                ),
            ),
            Section(
                "Moving",
                "Frames while a pointer drags or a wheel turns, in ms; what was drawn at the end; seconds until what "
                "came into sight was loaded.",
                Table(
                    "moving",
                    ("moving", "frames", "median, ms", "95 %", "longest", "things drawn", "loaded after, s"),
                    moved,
                    "One run of each; the figures are over its frames.",
                ),
                f"The page's memory after that: {heaps} of JavaScript heap.",
            ),
        ],
        about=f"A store of {events:,} events on {PROCESSES} processes, and the history directory that the pipeline "
        "makes of them; a window of 1440 × 860, headless, without a graphics card.",
    )
    return msgspec.structs.replace(made, versions={**made.versions, "Chromium": chromium})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
