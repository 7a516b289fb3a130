"""What was judged, and how much of it: cells and sentences of the report page.

Nothing found and nothing judged are two things: a ✓ stands only where something was judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.pipeline.report.text import amount_text, count, known_or_why, mapping_of, number_of, string_of

__all__ = ["judgement", "orders", "partly"]

Report = Mapping[str, object]
Number = int | float


def judgement(kind: str, number: Number | None, judged: Report, notes: Sequence[str]) -> Markup:
    why = string_of(judged.get("why"))
    if number is None:
        if why:
            return element("span", f"not judged: {why}", class_="quiet")
        words = (f"{kind}:", f"{kind} order", *(() if kind == "clock" else ("checks of order",)))
        return known_or_why(None, notes, *words)
    tally = _tally(number)
    part, of = number_of(judged.get("judged")), number_of(judged.get("of"))
    if part is None or of is None or part >= of:
        return tally
    what = count(of, "event" if kind == "clock" else "receive")
    return joined([tally, element("span", f" judged by {amount_text(part)} of {what}: {why}", class_="quiet")])


def orders(counts: Mapping[str, Number | None]) -> list[Number | None]:
    """Of the orders, without that of reported clocks."""
    return [number for kind, number in counts.items() if kind != "clock"]


def partly(judged: Report, kinds: Iterable[str]) -> list[Markup]:
    """The order of which least was judged, if not all was."""
    shares = []
    for kind in kinds:
        one = mapping_of(judged.get(kind))
        number, of = number_of(one.get("judged")), number_of(one.get("of"))
        if kind != "clock" and number and of and number < of:
            shares.append((number, of, string_of(one.get("why"))))
    if not shares:
        return []
    number, of, why = min(shares)
    text = f"Order was judged by {amount_text(number)} of {count(of, 'receive')}: {why}."
    return [joined([text])]


def _tally(number: Number) -> Markup:
    if number:
        return element("span", f"⚠ {amount_text(number)}", class_="number bad")
    return element("span", "✓ none", class_="number good")
