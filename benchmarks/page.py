"""The page in a real browser, on a history of a million events: how soon it is painted, and how it moves.

    python -m benchmarks.page [EVENTS] [--folder FOLDER]

Writes benchmarks/PAGE.md. The store is made once per folder (minutes for a million events). Needs playwright and a
Chromium. Frames are measured in the page by `requestAnimationFrame` while a pointer drags and a wheel turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from beforehand.service import Ingest, Store
from benchmarks.service_store import PROCESSES, reports

__all__ = ["main"]

RESULT: Final = Path(__file__).with_name("PAGE.md")
BATCH: Final = 5_000
OPENINGS: Final = 5
SETTLED: Final = "() => document.documentElement.dataset.ready && beforehand.pane.root.dataset.busy === 'false'"

# Frame times in ms while something goes on, and the longest piece of work that blocked the page.
RECORD: Final = """() => {
  const frames = [];
  let last = performance.now(), on = true;
  const tick = (now) => { frames.push(now - last); last = now; if (on) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  globalThis.recorded = () => { on = false; return frames.slice(1); };
}"""


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


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`beforehand serve` as a process; its address."""
    command = [
        sys.executable,
        "-m",
        "beforehand",
        "serve",
        "--store",
        str(folder / "store.db"),
        "--port",
        "0",
        "--json",
    ]
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
    given = parser.parse_args(arguments)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("benchmarks.page: there is no Chromium on this machine", file=sys.stderr)
        return 2
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        store_of(folder, given.events)
        with serving(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 860})
            openings = [painted(page, url) for _ in range(OPENINGS)]
            moves = [measured(page, url, do) for do in ("pan far", "zoom", "pan near")]
            version = browser.version
            heap = page.evaluate("() => performance.memory.usedJSHeapSize / 2 ** 20")
            browser.close()
    text = "\n".join(result(given.events, openings, moves, version, heap)) + "\n"
    RESULT.write_text(text, encoding="utf-8")
    print(text)
    return 0


def result(
    events: int, openings: list[tuple[float, float]], moves: list[dict[str, Any]], version: str, heap: float
) -> Iterator[str]:
    """Lines of Markdown."""
    load = os.getloadavg()[0]
    yield "# The page"
    yield ""
    yield "Made by `python -m benchmarks.page`. The machine is shared and noisy."
    yield ""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}"
    yield f"- {time.strftime('%Y-%m-%d')}, {machine}"
    yield f"- Python {platform.python_version()}, Chromium {version}, headless, without a graphics card"
    yield f"- A store of {events:,} events on {PROCESSES} processes; a window of 1440 × 860"
    yield ""
    yield "Seconds from the address to the first picture with events, and until all of it is there. The first opening"
    yield "finds the service just started:"
    yield ""
    yield "| opening | first picture | all of it |"
    yield "|---|---|---|"
    for number, (first, whole) in enumerate(openings, 1):
        yield f"| {number} | {first:.2f} | {whole:.2f} |"
    yield ""
    yield "Frames while a pointer drags or a wheel turns, in ms; what was drawn at the end; seconds until what came"
    yield "into sight was loaded:"
    yield ""
    yield "| moving | frames | median | 95 % | longest | things drawn | loaded after |"
    yield "|---|---|---|---|---|---|---|"
    for one in moves:
        yield (
            f"| {one['what']} | {one['frames']} | {one['median']:.1f} | {one['p95']:.1f} | {one['longest']:.1f} |"
            f" {one['drawn']:,} | {one['rest']:.2f} |"
        )
    yield ""
    yield f"The page's memory after that: {heap:.0f} MiB of JavaScript heap."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
