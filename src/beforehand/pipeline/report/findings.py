"""What went wrong, as sections of the report page: failures, violations of order, hidden channels, the headline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.pipeline.report.judging import judgement, orders, partly
from beforehand.pipeline.report.parts import (
    Cell,
    Picture,
    Section,
    attributes_of,
    code,
    more,
    paragraph,
    picture,
    table,
)
from beforehand.pipeline.report.text import (
    amount,
    amount_text,
    count,
    duration,
    instant,
    known_or_why,
    mapping_of,
    number_of,
    records_of,
    string_of,
    strings_of,
)

__all__ = ["Verdict", "failures_section", "hidden_section", "verdict_of", "violations_section"]

Report = Mapping[str, object]
Pictures = Mapping[str, Picture]

_EXPLAINED_MAX: Final = 25  # Failures shown with what led to them.
_LISTED_MAX: Final = 200  # Failures listed without.
_EVENTS_MAX: Final = 200  # Rows of one explanation.
_WITNESSES_MAX: Final = 50
_REASONS_MAX: Final = 50
_CHAIN_MAX: Final = 40
_HIDDEN_MAX: Final = 50

_KINDS: Final = {
    "fifo": ("FIFO order", "a message was received after a later one from the same sender"),
    "causal": ("causal order", "a message was received after one that it could have caused"),
    "total": ("total order", "messages that no one order can satisfy: processes received them in orders that clash"),
    "temporal": ("temporal order", "a message was received after one that was sent much later"),
    "clock": ("reported clocks", "a vector clock in the log is not the one that the messages imply"),
}
_SEE_VIOLATIONS: Final = Markup("see <code>violations/</code> or <code>beforehand check</code>.")
_SEE_FAILURES: Final = Markup("see <code>report.json</code> or <code>beforehand find</code>.")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a tired reader needs first."""

    level: str  # "failure", "violation", "good" or "unknown": chooses the colour, and `sign` and `word` say it too.
    sign: str
    word: str
    headline: str
    facts: tuple[Markup, ...]


def verdict_of(report: Report) -> Verdict:
    failures = records_of(report.get("failures"))
    failed = _failures_total(report)
    counts = _counts(report)
    found = sum(number for number in counts.values() if number is not None)
    facts: list[Markup] = []
    if failures:
        facts.append(_first_fact(failures[0]))
    if failed > 1:
        facts.append(joined([count(failed, "failure"), " in all: ", _link("failures", "see each"), "."]))
    if found:
        listed = ", ".join(f"{amount_text(number)} of {_kind(kind)[0]}" for kind, number in counts.items() if number)
        facts.append(joined([count(found, "violation"), f": {listed}. ", _link("violations", "See why"), "."]))
    elif failed and orders(counts) and None not in orders(counts):
        facts.append(joined(["No message arrived out of order."]))
    facts += _caveats(report, counts)
    if failed:
        first = failures[0] if failures else {}
        name, process = _name(first), string_of(first.get("process"))
        headline = f"First failure: {name}" + (f", on {process}" if process else "") if failures else _many(failed)
        return Verdict("failure", "✖", "failed", headline, tuple(facts))
    if found:
        return Verdict("violation", "⚠", "out of order", f"No event failed, but {_were(found)} found", tuple(facts))
    if not number_of(report.get("events")):
        known = "events" in report and report["events"] is not None
        headline = "There are no events here" if known else "This report does not say what was analysed"
        return Verdict("unknown", "?", "nothing to judge", headline, tuple(facts))
    if all(number is None for number in orders(counts)):
        clocks = ", the reported clocks are right" if counts.get("clock") is not None else ""
        headline = f"No event failed{clocks}; the order of messages was not judged"
        return Verdict("unknown", "?", "not judged", headline, tuple(facts))
    return Verdict("good", "✓", "in order", "Nothing wrong was found", tuple(facts))


def failures_section(report: Report, pictures: Pictures) -> Section:
    failures = records_of(report.get("failures"))
    total = _failures_total(report)
    if not failures:
        known = report.get("failures") is not None or number_of(report.get("failures_total")) is not None
        none = "No event was marked as a failure." if known and not total else ""
        sentence = none or (f"{_many(total)}; none is listed here." if total else "Failures: not known.")
        return Section("failures", "Failures", paragraph(sentence), amount_text(total) if known else "")
    parts = [
        paragraph(
            "Each failure with the events that happened before it, in causal order: what is further down may have "
            "been caused by what is further up, never the other way round. Times are of the process's own clock, as "
            "they came (UTC), so they may jump.",
            class_="quiet",
        )
    ]
    explained = [(at, one) for at, one in enumerate(failures) if one.get("events") is not None][:_EXPLAINED_MAX]
    parts += [
        _failure(at, one, pictures, opened=position == 0, of=len(failures))
        for position, (at, one) in enumerate(explained)
    ]
    in_full = {at for at, _ in explained}
    rest = [one for at, one in enumerate(failures) if at not in in_full]
    if rest:
        parts.append(element("h3", "Failures that are not explained here" if explained else "Failures"))
        rows: list[list[Markup | Cell]] = [
            [
                code(one.get("event")),
                element("span", string_of(one.get("process"))),
                element("span", _name(one)),
                instant(one.get("time")),
                Cell(amount(one.get("past")), numeric=True),
                attributes_of(one.get("attributes")),
            ]
            for one in rest[:_LISTED_MAX]
        ]
        head = ("event", "process", "what happened", "its clock", "events before it", "attributes")
        parts.append(table("Failures without an explanation", head, rows))
        parts.append(
            paragraph(
                Markup("<code>beforehand explain</code> with the id of one shows what led to it."), class_="quiet"
            )
        )
    listed = len(explained) + len(rest[:_LISTED_MAX])
    parts.append(more(total, listed, _SEE_FAILURES))
    return Section("failures", "Failures", joined(parts), amount_text(total))


def violations_section(report: Report, pictures: Pictures) -> Section:
    notes = strings_of(report.get("notes"))
    counts = _counts(report)
    judged = mapping_of(report.get("judged"))
    rows: list[list[Markup | Cell]] = [
        [
            element("span", _kind(kind)[0]),
            judgement(kind, number, mapping_of(judged.get(kind)), notes),
            element("span", _kind(kind)[1]),
        ]
        for kind, number in counts.items()
    ]
    parts = [
        table("Violations by kind", ("checked", "found", "what it means"), rows)
        if rows
        else paragraph("Which orders were checked is not known.")
    ]
    witnesses = records_of(report.get("witnesses"))
    shown = witnesses[:_WITNESSES_MAX]
    parts += [_witness(at, one, pictures, opened=at < 3) for at, one in enumerate(shown)]
    found = sum(number for number in counts.values() if number is not None)
    parts.append(more(max(found, len(witnesses)) if shown else None, len(shown), _SEE_VIOLATIONS))
    if found and not shown:
        parts.append(paragraph("None is listed here; ", _SEE_VIOLATIONS, class_="quiet"))
    known = any(number is not None for number in counts.values())
    return Section("violations", "Violations", joined(parts), amount_text(found) if known else "")


def hidden_section(report: Report) -> Section:
    value = report.get("hidden_channels")
    channels = records_of(value)
    what = paragraph(
        "Two processes used the same resource, one surely after the other whatever their clocks say, yet no message "
        "tells of a connection. Perhaps a cause travelled outside the messages in the log: through a database, a "
        "file, a person.",
        class_="quiet",
    )
    if not channels:
        known = value is not None
        notes = strings_of(report.get("notes"))
        none = paragraph("None is suspected.") if known else paragraph(known_or_why(None, notes, "hidden channel"))
        return Section("hidden", "Hidden channels", joined([none, what]), "0" if known else "")
    rows: list[list[Markup | Cell]] = [
        [
            code(one.get("resource")),
            code(one.get("earlier")),
            code(one.get("later")),
            Cell(joined(["at least ", duration(one.get("apart_ns"))]), numeric=True),
        ]
        for one in channels[:_HIDDEN_MAX]
    ]
    body = [
        what,
        table("Suspected hidden channels", ("resource", "earlier", "later", "apart"), rows),
        more(len(channels), len(rows), Markup("see <code>report.json</code> or <code>beforehand measure</code>.")),
    ]
    return Section("hidden", "Hidden channels", joined(body), amount_text(len(channels)))


def _failure(at: int, failure: Report, pictures: Pictures, *, opened: bool, of: int) -> Markup:
    name, process = _name(failure), string_of(failure.get("process"))
    past = number_of(failure.get("past"))
    events = records_of(failure.get("events"))[-_EVENTS_MAX:]
    rows = [_event_row(number, one) for number, one in enumerate(events, start=1)]
    rows.append(_event_row(None, {**failure, "id": failure.get("event"), "kind": failure.get("kind")}))
    summary = element(
        "summary",
        element("span", "✖", class_="sign bad", aria_hidden="true"),
        element("b", name),
        element("span", f" on {process} " if process else " ", class_="quiet"),
        code(failure.get("event")),
        element("span", f" failure {at + 1} of {of}", class_="quiet place"),
    )
    if past is None:
        sentence = f"These {count(len(events), 'event')} happened before it, oldest first; the failure is last."
    elif not events:
        sentence = "Nothing is known to have happened before it."
    elif past <= len(events):
        sentence = f"All {count(past, 'event')} that happened before it, oldest first; the failure is last."
    else:
        sentence = (
            f"{count(past, 'event')} happened before it and could have led to it. These are the last "
            f"{amount_text(len(events))}, oldest first; the failure is last."
        )
    head = ("", "event", "process", "kind", "what happened", "its clock (UTC)", "attributes")
    label = f"What happened before {name}"
    return element(
        "details",
        summary,
        paragraph(instant(failure.get("time")), " ", attributes_of(failure.get("attributes"))),
        paragraph(sentence),
        table(label, head, rows, marked=len(rows) - 1, class_="past"),
        picture(pictures, f"failure:{at}", f"Picture of what happened before {name}"),
        id=f"failure-{at}",
        class_="item",
        open=opened,
    )


def _event_row(number: int | None, event: Report) -> list[Markup | Cell]:
    kind = string_of(event.get("kind"))
    failed = element("span", "✖", class_="sign bad", role="img", aria_label="the failure")
    return [
        Cell(failed if number is None else element("span", str(number), class_="quiet"), numeric=True),
        code(event.get("id"), 80),
        element("span", string_of(event.get("process"))),
        element("span", kind, class_="quiet"),
        element("span", string_of(event.get("name"))),
        instant(event.get("time")),
        attributes_of(event.get("attributes")),
    ]


def _witness(at: int, witness: Report, pictures: Pictures, *, opened: bool) -> Markup:
    kind = string_of(witness.get("kind"))
    title = _kind(kind)[0]
    why = string_of(witness.get("why")) or "no reason is given"
    execution = string_of(witness.get("execution"))
    reasons = strings_of(witness.get("reasons"))
    events, messages = strings_of(witness.get("events")), strings_of(witness.get("messages"))
    summary = element(
        "summary",
        element("span", "⚠", class_="sign bad", aria_hidden="true"),
        element("b", title[:1].upper() + title[1:]),
        element("span", f" in execution {execution}" if execution else "", class_="quiet"),
        element("span", f" violation {at + 1}", class_="quiet place"),
    )
    parts = [paragraph(why + ("" if why.endswith(".") else "."), class_="why")]
    if reasons:
        items = [element("li", reason) for reason in reasons[:_REASONS_MAX]]
        parts.append(paragraph("Step by step:", class_="quiet"))
        parts.append(element("ol", *items))
        parts.append(more(len(reasons), len(items), _SEE_VIOLATIONS))
    for label, ids in (("Events", events), ("Messages", messages)):
        if ids:
            left = f" and {amount_text(len(ids) - _CHAIN_MAX)} more" if len(ids) > _CHAIN_MAX else ""
            chain = joined([code(one, 80) for one in ids[:_CHAIN_MAX]], Markup(" "))
            parts.append(paragraph(element("span", f"{label}: ", class_="quiet"), chain, left))
    parts.append(picture(pictures, f"violation:{at}", f"Picture of violation {at + 1}"))
    return element("details", summary, *parts, id=f"violation-{at}", class_="item", open=opened)


def _first_fact(failure: Report) -> Markup:
    past = number_of(failure.get("past"))
    explained = records_of(failure.get("events"))
    parts: list[str] = [code(failure.get("event"), 80)]
    if failure.get("time") is not None:
        parts += [", ", instant(failure.get("time")), " by its own clock"]
    parts.append(".")
    if past is not None:
        parts.append(f" {count(past, 'event')} happened before it and could have led to it.")
    if explained:
        parts += [" ", _link("failure-0", "See the last of them"), "."]
    return joined(parts)


def _caveats(report: Report, counts: Mapping[str, int | float | None]) -> list[Markup]:
    """What makes the verdict less sure than it sounds."""
    caveats: list[Markup] = []
    judged = mapping_of(report.get("judged"))
    reasons: dict[str, list[str]] = {}
    for kind, number in counts.items():
        why = string_of(mapping_of(judged.get(kind)).get("why"))
        if number is None and not (kind == "clock" and why):  # Where no clock is reported, none is missed.
            reasons.setdefault(why, []).append(_kind(kind)[0])
    if not counts:
        caveats.append(joined(["Whether messages arrived in order is not known."]))
    for why, kinds in reasons.items():
        caveats.append(joined([f"Not judged: {', '.join(kinds)}{f' ({why})' if why else ''}."]))
    caveats += partly(judged, counts)
    if report.get("failures") is None and number_of(report.get("failures_total")) is None:
        caveats.append(joined(["Whether events failed is not known."]))
    rejected = number_of(report.get("rejected"))
    if rejected:
        pieces = count(rejected, "piece of input was", "pieces of input were")
        caveats.append(joined([f"{pieces} refused and left out: ", _link("rejected", "see why"), "."]))
    unsent = number_of(report.get("unsent"))
    if unsent:
        receives = count(unsent, "message was", "messages were")
        caveats.append(joined([f"{receives} received that no event sent: some causes are missing from the log."]))
    return caveats


def _counts(report: Report) -> dict[str, int | float | None]:
    """By kind, the known ones first and always in the same order."""
    given = mapping_of(report.get("violations"))
    order = [*(kind for kind in _KINDS if kind in given), *(kind for kind in given if kind not in _KINDS)]
    return {kind: number_of(given[kind]) for kind in order[:50]}


def _failures_total(report: Report) -> int | float:
    listed = len(records_of(report.get("failures")))
    return max(number_of(report.get("failures_total")) or 0, listed)


def _kind(kind: str) -> tuple[str, str]:
    return _KINDS.get(kind, (kind or "order", ""))


def _name(event: Report) -> str:
    identity = string_of(event.get("event") or event.get("id"))
    return string_of(event.get("name")) or f"event {identity or 'without a name'}"


def _link(target: str, label: str) -> Markup:
    return element("a", label, href=f"#{target}")


def _many(number: int | float) -> str:
    return f"{count(number, 'event')} failed"


def _were(number: int | float) -> str:
    return count(number, "violation was", "violations were")
