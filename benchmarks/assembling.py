"""The files of results/, and RESULTS.md above them.

For each part: NAME.json, which is what was measured; NAME.md and NAME.svg, drawn from it; NAME.failed, if its last
run failed, with a line that says how. Pages and plots can be drawn again at any time, to the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.markdown import part_page, results_page
from benchmarks.parts import PARTS
from benchmarks.plots import growth_plot, plot_of
from benchmarks.report import Report, decode, encode

__all__ = ["FOLDER", "assemble", "drawn", "keep", "note_failure", "reports_of"]

FOLDER: Final = Path(__file__).resolve().parent / "results"
GROWTH: Final = "pipeline-growth.svg"


def reports_of(folder: Path) -> dict[str, Report]:
    """Of all parts that were run, by name."""
    files = {name: folder / f"{name}.json" for name in PARTS}
    return {name: decode(file.read_bytes()) for name, file in files.items() if file.is_file()}


def keep(folder: Path, report: Report) -> None:
    """This is what the part measured last."""
    folder.mkdir(exist_ok=True)
    (folder / f"{report.part}.json").write_bytes(encode(report))
    (folder / f"{report.part}.failed").unlink(missing_ok=True)


def note_failure(folder: Path, part: str, why: str) -> None:
    """The part's last run failed; its figures stay those of the run before."""
    folder.mkdir(exist_ok=True)
    (folder / f"{part}.failed").write_text(f"{why}\n", encoding="utf-8")


def drawn(folder: Path) -> dict[Path, str]:
    """Every file that follows from the data, by path."""
    reports = reports_of(folder)
    failed = {name: folder / f"{name}.failed" for name in PARTS}
    failures = {name: file.read_text(encoding="utf-8").strip() for name, file in failed.items() if file.is_file()}
    plots = {name: plot for name, report in reports.items() if (plot := plot_of(report)) is not None}
    files = {folder / f"{name}.svg": plot for name, plot in plots.items()}
    growth = growth_plot(reports)
    if growth is not None:
        files[folder / GROWTH] = growth
    for name, report in reports.items():
        files[folder / f"{name}.md"] = part_page(report, picture=f"{name}.svg" if name in plots else None)
    files[folder.parent / "RESULTS.md"] = results_page(
        reports,
        failures=failures,
        pictures={name: f"{folder.name}/{name}.svg" for name in plots},
        growth=f"{folder.name}/{GROWTH}" if growth is not None else None,
    )
    return files


def assemble(folder: Path = FOLDER) -> list[Path]:
    """Write what follows from the data, and remove what no longer does; files that are right are not touched."""
    wanted = drawn(folder)
    changed = [
        path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in changed:
        path.write_text(wanted[path], encoding="utf-8")
    for path in (*folder.glob("*.svg"), *folder.glob("*.md")):
        if path not in wanted:
            path.unlink()
    return changed
