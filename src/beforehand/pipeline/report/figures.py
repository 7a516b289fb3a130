"""The figures of a report as sections of its page: counts, clocks, synchrony, delays, δ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.diagram.text import natural_key
from beforehand.pipeline.report.charts import Bin, delay_chart, lateness_chart, offset_axis, offset_bar, offset_scale
from beforehand.pipeline.report.parts import Cell, Section, code, figure, more, paragraph, table
from beforehand.pipeline.report.text import (
    amount_text,
    count,
    duration,
    duration_text,
    known_or_why,
    mapping_of,
    number_of,
    records_of,
    share_text,
    strings_of,
)

__all__ = ["cards", "clocks_section", "delays_section", "synchrony_section"]

Report = Mapping[str, object]

_CLOCKS_MAX: Final = 200
_LATENESS_MAX: Final = 200
_CARDS: Final = (
    ("events", "events", "steps of the processes"),
    ("processes", "processes", "each a sequence of events"),
    ("executions", "executions", "runs that have nothing to do with each other"),
    ("messages", "messages", "sent by some event"),
    ("receives", "receives", "a message may go to many"),
    ("unreceived", "unreceived", "messages that nobody received"),
    ("unsent", "unsent", "receives of messages that nobody sent"),
    ("rejected", "rejected", "pieces of input that were refused"),
)
_WORRYING: Final = ("unsent", "rejected")


def cards(report: Report) -> Markup:
    """How much there was, at a glance."""
    drawn: list[Markup] = []
    for key, name, meaning in _CARDS:
        number = number_of(report.get(key))
        worry = key in _WORRYING and bool(number)
        value = (f"⚠ {amount_text(number)}" if worry else amount_text(number)) if number is not None else "not known"
        names = "value" + (" warn" if worry else "") + (" quiet" if number is None else "")
        drawn.append(
            element(
                "div", element("dt", name), element("dd", value, class_=names), element("dd", meaning), class_="card"
            )
        )
    return element("dl", *drawn, class_="cards")


def clocks_section(report: Report) -> Section:
    notes = strings_of(report.get("notes"))
    clocks = mapping_of(report.get("clocks"))
    references = strings_of(report.get("references"))
    parts = [
        paragraph(
            "How far each process's clock is from that of the reference, as far as the messages prove it: no message "
            "can arrive before it was sent. The true offset lies somewhere inside the bar.",
            class_="quiet",
        )
    ]
    if not clocks:
        parts.append(paragraph(known_or_why(None, notes, "clock", "offset")))
        return Section("clocks", "Clocks", joined([*parts, _epsilon(report, notes)]))
    names = sorted(clocks, key=lambda name: (name not in references, natural_key(name)))[:_CLOCKS_MAX]
    bounds = {name: _bounds(clocks[name]) for name in names}
    scale = offset_scale(one for pair in bounds.values() for one in pair)
    rows = []
    for name in names:
        low, high = bounds[name]
        sentence = _offset_text(low, high, reference=name in references)
        rows.append(
            [
                code(name, 60),
                offset_bar(low, high, scale, f"clock of {name[:60]}: {sentence}"),
                element("span", sentence, title=_exact(low, high)),
            ]
        )
    rows.append([Markup(), offset_axis(scale), Markup()])
    parts.append(table("Clock offsets", ("process", "offset", "in words"), rows, class_="offsets"))
    parts.append(more(len(clocks), len(names), Markup("see <code>beforehand measure</code>.")))
    return Section("clocks", "Clocks", joined([*parts, _epsilon(report, notes)]))


def synchrony_section(report: Report) -> Section:
    notes = strings_of(report.get("notes"))
    synchrony = mapping_of(report.get("synchrony"))
    words = ("synchrony", "delay")
    share = number_of(report.get("concurrency"))
    shown_share = None if share is None else element("span", share_text(share), title=f"{share}", class_="number")
    figures = [
        figure(
            "Tightness",
            known_or_why(_known_duration(synchrony.get("tightness_ns")), notes, *words),
            "One message reaches its different receivers at most this far apart.",
        ),
        figure(
            "Steadiness",
            known_or_why(_known_duration(synchrony.get("steadiness_ns")), notes, *words),
            "Messages to one process differ in their delays by at most this much.",
        ),
        figure(
            "Uncertainty",
            known_or_why(_known_duration(synchrony.get("uncertainty_ns")), notes, *words),
            "The longest delay of all less the shortest: what you cannot know about a message under way.",
        ),
        figure(
            "Concurrency",
            known_or_why(shown_share, notes, "concurrency"),
            "This share of all pairs of events could not have influenced each other, either way.",
        ),
    ]
    depth = number_of(report.get("depth"))
    if depth is not None:
        meaning = "The longest causal chain has this many events: no number of processes makes it shorter."
        figures.append(figure("Depth", element("span", amount_text(depth), class_="number"), meaning))
    body = [
        element("dl", *figures, class_="figures"),
        paragraph("Measured on the clocks as they came, so the offsets between clocks count in.", class_="quiet"),
    ]
    return Section("synchrony", "Synchrony", joined(body))


def delays_section(report: Report) -> Section:
    notes = strings_of(report.get("notes"))
    delays = mapping_of(report.get("delays"))
    bins = _bins(delays.get("histogram"))
    parts: list[Markup] = []
    if bins:
        total = sum(one[2] for one in bins)
        counted = number_of(delays.get("count"))
        negative = sum(one[2] for one in bins if one[0] < 0)
        parts.append(delay_chart(bins))
        sentence = f"{count(counted if counted is not None else total, 'delay')} of messages with times at both ends."
        if negative:
            sentence += (
                f" {amount_text(negative)} of them ({share_text(negative / total)}), striped, are negative: the "
                "receiver's clock is behind the sender's."
            )
        parts.append(paragraph(sentence))
    else:
        parts.append(paragraph("Delays: ", known_or_why(None, notes, "delay")))
    parts.append(element("h3", "Waiting time against loss"))
    parts.append(
        paragraph(
            "A merger that waits δ for each message delivers in one order and loses what comes later than that. "
            "Longer waiting loses less.",
            class_="quiet",
        )
    )
    points = _lateness(report.get("lateness"))
    if points:
        rows = [
            [
                Cell(duration(delta), numeric=True),
                Cell(element("span", share_text(late), title=f"{late}", class_="number"), numeric=True),
            ]
            for delta, late in points
        ]
        listed = table("Share of late messages", ("wait δ", "late"), rows)
        parts.append(element("div", lateness_chart(points), listed, class_="beside"))
    else:
        parts.append(paragraph(known_or_why(None, notes, "delay", "late")))
    longest = known_or_why(_known_duration(report.get("delta_ns")), notes, "delay")
    parts.append(paragraph("With δ = ", longest, ", the longest delay seen, no message of this log is late."))
    return Section("delays", "Delays", joined(parts))


def _epsilon(report: Report, notes: list[str]) -> Markup:
    epsilon = mapping_of(report.get("epsilon"))
    low, high = (known_or_why(_known_duration(epsilon.get(key)), notes, "clock") for key in ("min_ns", "max_ns"))
    return element(
        "dl",
        figure("ε at least", low, "Two clocks are surely this far apart."),
        figure("ε at most", high, "No two clocks can be further apart than this."),
        class_="figures",
    )


def _known_duration(value: object) -> Markup | None:
    return None if number_of(value) is None else duration(value)


def _bounds(value: object) -> tuple[int | float | None, int | float | None]:
    bounds = mapping_of(value)
    return number_of(bounds.get("offset_min_ns")), number_of(bounds.get("offset_max_ns"))


def _offset_text(low: int | float | None, high: int | float | None, *, reference: bool) -> str:
    if reference and not low and not high:
        return "the reference: 0"
    if low is None and high is None:
        return "nothing bounds it"
    if low is None:
        return f"at most {_signed(high or 0)}"
    if high is None:
        return f"at least {_signed(low)}"
    return _signed(low) if low == high else f"{_signed(low)} to {_signed(high)}"


def _signed(value: int | float) -> str:
    return f"+{duration_text(value)}" if value > 0 else duration_text(value)


def _exact(low: int | float | None, high: int | float | None) -> str | None:
    if low is None and high is None:
        return None
    return " to ".join("unbounded" if one is None else f"{one:,} ns" for one in (low, high))


def _bins(value: object) -> list[Bin]:
    """The bins that are three numbers, from low to high, without the empty ones at both ends."""
    found: list[Bin] = []
    for one in value if isinstance(value, list | tuple) else ():
        numbers = [number_of(part) for part in one] if isinstance(one, list | tuple) else []
        known = [number for number in numbers if number is not None]
        if len(numbers) == 3 and len(known) == 3 and known[0] <= known[1] and known[2] >= 0:
            found.append((known[0], known[1], known[2]))
    found.sort()
    filled = [at for at, one in enumerate(found) if one[2]]
    return found[filled[0] : filled[-1] + 1] if filled else []


def _lateness(value: object) -> list[tuple[int | float, float]]:
    points: list[tuple[int | float, float]] = []
    for one in records_of(value)[:_LATENESS_MAX]:
        delta, late = number_of(one.get("delta_ns")), number_of(one.get("late"))
        if delta is not None and late is not None and 0 <= late <= 1:
            points.append((delta, float(late)))
    return sorted(points)
