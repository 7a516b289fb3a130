"""What was read and what became of it, as sections of the report page: processes, rejected input, notes, inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.pipeline.report.parts import Cell, Section, code, more, paragraph, table
from beforehand.pipeline.report.text import (
    amount,
    amount_text,
    duration_text,
    instant,
    mapping_of,
    number_of,
    records_of,
    size_text,
    string_of,
    strings_of,
)

__all__ = ["inputs_section", "notes_section", "processes_section", "rejected_section", "timings_section"]

Report = Mapping[str, object]

_PROCESSES_MAX: Final = 500
_REASONS_MAX: Final = 50
_EXAMPLES_MAX: Final = 25
_NOTES_MAX: Final = 100
_INPUTS_MAX: Final = 100
_STEPS_MAX: Final = 50
_LINE_MAX: Final = 400


def processes_section(report: Report) -> Section:
    processes = records_of(report.get("processes_table"))
    total = number_of(report.get("processes"))
    badge = "" if total is None else amount_text(total)
    if not processes:
        return Section("processes", "Processes", paragraph("No process is listed."), badge)
    rows: list[list[Markup | Cell]] = []
    for one in processes[:_PROCESSES_MAX]:
        name = string_of(one.get("process"))
        counts = [_sorted_amount(one.get(key)) for key in ("events", "sends", "receives")]
        times = [Cell(instant(one.get(key)), _by_time(one.get(key))) for key in ("first_time", "last_time")]
        rows.append([Cell(code(name, 80), name[:200]), *counts, *times, _sorted_amount(one.get("gaps"))])
    head = ("process", "events", "sends", "receives", "first time", "last time", "gaps")
    body = [
        paragraph(
            "Times are by each process's own clock. Gaps are indexes without an event: something was not logged or "
            "not read.",
            class_="quiet",
        ),
        table("Processes", head, rows, sortable=True),
        more(max(total or 0, len(processes)), len(rows), Markup("see <code>events/</code>.")),
    ]
    return Section("processes", "Processes", joined(body), badge)


def rejected_section(report: Report) -> Section:
    total = number_of(report.get("rejected"))
    badge = "" if total is None else amount_text(total)
    reasons = mapping_of(report.get("rejected_reasons"))
    examples = records_of(report.get("rejected_examples"))
    if not reasons and not examples:
        none = "Nothing was rejected." if total == 0 else "What was rejected is not known."
        return Section("rejected", "Rejected input", paragraph(none), badge)
    ranked = sorted(reasons.items(), key=lambda item: (-(number_of(item[1]) or 0), item[0]))
    rows: list[list[Markup | Cell]] = [
        [code(reason, 80), Cell(amount(number), numeric=True)] for reason, number in ranked[:_REASONS_MAX]
    ]
    parts = [
        paragraph("What could not be used was set aside with a reason; nothing is dropped silently.", class_="quiet")
    ]
    if rows:
        parts.append(table("Rejected input by reason", ("reason", "how many"), rows, class_="narrow"))
        parts.append(more(len(reasons), len(rows), Markup("see <code>rejected/</code>.")))
    if examples:
        shown = [
            [
                code(one.get("reason"), 80),
                element("span", string_of(one.get("detail"))),
                _spot(one),
                code(one.get("text"), _LINE_MAX) if one.get("text") else Markup(),
            ]
            for one in examples[:_EXAMPLES_MAX]
        ]
        parts.append(element("h3", "Examples"))
        parts.append(table("Examples of rejected input", ("reason", "what is wrong", "where", "text"), shown))
        known = max(total or 0, len(examples))
        parts.append(more(known, len(shown), Markup("see <code>rejected/</code>.")))
    return Section("rejected", "Rejected input", joined(parts), badge)


def notes_section(report: Report) -> Section | None:
    notes = strings_of(report.get("notes"))
    if not notes:
        return None
    items = [element("li", note) for note in notes[:_NOTES_MAX]]
    body = [element("ul", *items), more(len(notes), len(items), Markup("see <code>report.json</code>."))]
    return Section("notes", "Notes", joined(body), amount_text(len(notes)))


def inputs_section(report: Report) -> Section | None:
    inputs = records_of(report.get("inputs"))
    if not inputs:
        return None
    rows: list[list[Markup | Cell]] = [
        [
            Cell(code(one.get("path"), 120), string_of(one.get("path"))[:200]),
            Cell(element("span", string_of(one.get("format")) or "not known"), string_of(one.get("format"))),
            _sorted_amount(one.get("events")),
            _size(one.get("bytes")),
        ]
        for one in inputs[:_INPUTS_MAX]
    ]
    body = [
        table("Inputs", ("path", "format", "events", "size"), rows, sortable=len(rows) > 1),
        more(len(inputs), len(rows), Markup("see <code>manifest.json</code>.")),
    ]
    return Section("inputs", "Inputs", joined(body), amount_text(len(inputs)))


def timings_section(report: Report) -> Section | None:
    steps = {step: number_of(value) for step, value in mapping_of(report.get("seconds")).items()}
    if not steps:
        return None
    longest = max((value for value in steps.values() if value is not None), default=0) or 1
    rows: list[list[Markup | Cell]] = []
    for step, value in list(steps.items())[:_STEPS_MAX]:
        shown = "not known" if value is None else duration_text(value * 10**9)
        bar = element(
            "svg",
            element("rect", class_="bar", width=f"{max(value or 0, 0) / longest * 100:.1f}%", height=8, y=5, rx=2),
            class_="chart offset",
            width="100%",
            height=18,
            aria_hidden="true",
        )
        number = element("span", shown, class_="number", title=None if value is None else f"{value} s")
        rows.append([element("span", step), Cell(number, numeric=True), bar])
    return Section("timings", "Time taken", table("Time taken", ("step", "took", ""), rows, class_="offsets"))


def _sorted_amount(value: object) -> Cell:
    return Cell(amount(value), number_of(value), numeric=True)


def _by_time(value: object) -> int | float | str | None:
    return value[:64] if isinstance(value, str) else number_of(value)


def _size(value: object) -> Cell:
    number = number_of(value)
    if number is None:
        return Cell(amount(None), None, numeric=True)
    shown = element("span", size_text(number), class_="number", title=f"{amount_text(number)} bytes")
    return Cell(shown, number, numeric=True)


def _spot(example: Report) -> Markup:
    file, line = string_of(example.get("file")), number_of(example.get("line"))
    place = file if line is None else f"{file}:{line}" if file else f"line {line}"
    return code(place, 120) if place else Markup()
