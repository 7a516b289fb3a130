"""Reports as Markdown: the page of one part, and RESULTS.md, which is all of them with a summary on top.

Pure functions: the same reports give the same bytes. Every row of a table has an anchor, so that a claim can link to
the row that it rests on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.claims import CLAIMS, Claim
from benchmarks.parts import PARTS, Part
from benchmarks.report import Figure, Report, Row, Table, slug

__all__ = ["anchor_of", "part_page", "results_page"]


def part_page(report: Report, *, picture: str | None = None) -> str:
    part = PARTS[report.part]
    return "\n".join([f"# {part.title}", "", *_body(part, report, picture, level=2)])


def results_page(
    reports: Mapping[str, Report],
    *,
    failures: Mapping[str, str],
    pictures: Mapping[str, str],
    growth: str | None = None,
) -> str:
    """`failures`: of parts whose last run did not end well, what happened. `pictures`: paths, by part."""
    lines = [
        "# Results",
        "",
        'Made by `make bench`, or `make bench PARTS="rpc groups"` for some parts; nobody edits this file. Read',
        "ratios, not seconds: both sides of a ratio were measured in one run, the machine is not always quiet.",
        "",
        "## In one line",
        "",
        "| what | measured | how often | row |",
        "|---|---|---|---|",
        *(_claimed(claim, reports.get(claim.part)) for claim in CLAIMS),
        "",
        "## Contents",
        "",
        "| part | made by | on |",
        "|---|---|---|",
        *(_entry(part, reports.get(part.name), part.name in failures) for part in PARTS.values()),
        "",
    ]
    for part in PARTS.values():
        lines += [f"## {part.title}", ""]
        report = reports.get(part.name)
        if why := failures.get(part.name):
            shown = "the figures are of the run before" if report else "there are no figures"
            lines += [f"**The last run failed ({why}); {shown}.**", ""]
        if report is None:
            lines += [f"Not run yet: `{part.command}` ({part.takes}).", ""]
        else:
            lines += _body(part, report, pictures.get(part.name), level=3)
        if growth and part.name == "pipeline-100":
            lines += [f"![Seconds and ratio to Spark's sort against events, in both runs]({growth})", ""]
    return "\n".join(lines)


def anchor_of(report: Report, table: Table, row: Row) -> str:
    return slug(report.part, table.name, *row.name)


def _body(part: Part, report: Report, picture: str | None, *, level: int) -> Iterator[str]:
    yield f"- `{part.command}` ({part.takes})"
    yield f"- {report.date}, {report.machine}"
    yield f"- {', '.join(f'{name} {number}' for name, number in report.versions.items())}"
    yield ""
    if report.about:
        yield report.about
        yield ""
    if picture:
        yield f"![{part.title}: a plot of the tables below]({picture})"
        yield ""
    for section in report.sections:
        if section.title:
            yield f"{'#' * level} {section.title}"
            yield ""
        if section.text:
            yield section.text
            yield ""
        if section.table is not None:
            yield section.table.how
            yield ""
            yield from _table(report, section.table)
            yield ""
        if section.after:
            yield section.after
            yield ""


def _table(report: Report, table: Table) -> Iterator[str]:
    yield _line(table.columns)
    yield "|" + "---|" * len(table.columns)
    for row in table.rows:
        cells = [*row.name, *("–" if cell is None else str(cell) for cell in row.cells)]
        anchor = f'<a id="{anchor_of(report, table, row)}"></a>'
        yield _line([anchor + cells[0].replace("|", "\\|"), *cells[1:]])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _claimed(claim: Claim, report: Report | None) -> str:
    table = report.table(claim.table) if report else None
    row = table.row(*claim.row) if table else None
    figure = table.figure(claim.row, claim.column) if table else None
    if report is None or table is None or row is None or figure is None:
        return _line([claim.says, "not measured", "–", f"[{claim.part}](#{_heading(PARTS[claim.part])})"])
    spread = f" ({figure.low:,.{figure.digits}f}–{figure.high:,.{figure.digits}f})" if _spread(figure) else ""
    measured = f"**{figure.plain}{claim.unit}**{spread}"
    return _line([claim.says, measured, table.how, f"[{claim.part}](#{anchor_of(report, table, row)})"])


def _spread(figure: Figure) -> bool:
    return figure.low is not None and figure.high is not None


def _entry(part: Part, report: Report | None, failed: bool) -> str:
    when = report.date if report else "not run"
    if failed:
        when += ", the last run failed"
    return _line([f"[{part.title}](#{_heading(part)})", f"`{part.command}`", when])


def _heading(part: Part) -> str:
    """The anchor that GitHub gives the heading of this part."""
    return re.sub(r"[^\w\- ]", "", part.title.lower()).replace(" ", "-")
