"""Random spans as a tracer would report them, with all that goes wrong in real ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from beforehand.events import Event
from beforehand.formats.spans.records import Reference, ReferenceKind, Span, SpanEvent, SpanKind

TRACE = "00000000000000aa"


def child_of(span: Span, kind: ReferenceKind = ReferenceKind.CHILD_OF) -> tuple[Reference, ...]:
    return (Reference(span.trace_id, span.span_id, kind),)


def random_spans(random: Random, *, size: int = 30, odd: float = 0.1) -> list[Span]:
    """A tree of calls over a few skewed processes. `odd` is how often something is wrong."""
    skew = {f"s{i}": random.choice([0, 0, random.randint(-500, 500)]) for i in range(random.randint(1, 4))}
    spans: list[Span] = []
    true_times: list[tuple[int, int]] = []
    for number in range(size):
        span_id = f"{number + 1:016x}"
        service = random.choice(sorted(skew))
        kind = random.choice([SpanKind.UNSPECIFIED, SpanKind.INTERNAL, *SpanKind])
        start, end = 1_000, 1_000_000
        references: tuple[Reference, ...] = ()
        if spans and random.random() > 0.05:
            at = random.randrange(len(spans))
            parent = spans[at]
            low, high = true_times[at]
            start = random.randint(low, max(low, high - 1))
            end = random.randint(start, high if random.random() < 0.8 else high + 1_000)
            kinds = [ReferenceKind.CHILD_OF] * 4 + [ReferenceKind.FOLLOWS_FROM]
            references = child_of(parent, random.choice(kinds))
            if random.random() < 0.5:
                service = parent.service
            if random.random() < odd:
                references = (Reference(TRACE, "00000000000fffff", ReferenceKind.CHILD_OF),)
            while random.random() < odd:
                other = random.choice([f"{random.randint(1, size):016x}", span_id, "00000000000eeeee"])
                references += (Reference(TRACE, other, random.choice(list(ReferenceKind))),)
        offset = skew[service]
        events = tuple(
            SpanEvent(random.choice([None, start + offset, end + offset, 5]), f"e{i}", {"i": str(i)})
            for i in range(random.choice([0, 0, 1, 2]))
        )
        span = Span(
            trace_id=TRACE,
            span_id=span_id,
            references=tuple(dict.fromkeys(references)),
            service=service,
            name=f"op{number % 5}",
            kind=kind,
            start_ns=start + offset,
            end_ns=end + offset,
            error=random.random() < 0.1,
            events=events,
        )
        if random.random() < odd:
            span = random.choice(
                [
                    replace(span, end_ns=None),
                    replace(span, start_ns=None),
                    replace(span, start_ns=None, end_ns=None),
                    replace(span, end_ns=start + offset - 7),
                    replace(span, end_ns=start + offset),
                    replace(span, remote_parent=True),
                ]
            )
        spans.append(span)
        true_times.append((start, end))
        if random.random() < odd:  # The other half of a call, or the same span again, or a wrong one.
            half = replace(span, service=random.choice(sorted(skew)), kind=SpanKind.SERVER)
            spans[-1] = replace(span, kind=SpanKind.CLIENT)
            spans.append(random.choice([half, spans[-1], replace(span, name="other")]))
            true_times.append((start, end))
    random.shuffle(spans)
    return spans


def phases(events: list[Event]) -> dict[tuple[str, str], list[Event]]:
    """(span id, phase) to events, in the order of processes."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        found.setdefault((event.attributes["span"], event.attributes["phase"]), []).append(event)
    return found
