"""The report page of the demo's shop: what failed, what led to it, what was out of order."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from beforehand.cli.shop import shop_run
from beforehand.diagram import LayoutOptions, Marks
from beforehand.diagram.page.figure import Figure, figure
from beforehand.diagram.page.sources import drawn_frame
from beforehand.events import Event
from beforehand.history import History
from beforehand.pipeline.report import report_page
from html_pages import Page

# A report like the one that `analyze` writes, made in memory from the demo's shop.


def shop_report() -> dict[str, object]:
    history = History(shop_run(seed=1))
    measures, checks = history.measure(), history.check()
    failures = [event for event in history.order() if event.attributes.get("level") == "error"]
    ran = history.order()
    sent = {message for event in ran for message in event.sends}
    received = [message for event in ran for message in event.receives]
    return {
        "events": len(history),
        "processes": len(history.processes),
        "executions": 1,
        "messages": len(sent),
        "receives": len(received),
        "unreceived": len(sent - set(received)),
        "unsent": len(set(received) - sent),
        "rejected": 3,
        "failures": [failure_of(history, event) for event in failures],
        "failures_total": len(failures),
        "violations": {kind: checks.counts[kind] for kind in ("fifo", "causal", "total", "clock")},
        "witnesses": [
            {
                "kind": one.kind,
                "execution": "",
                "events": [str(event) for event in one.events],
                "messages": list(one.messages),
                "why": one.why,
                "reasons": list(one.reasons),
            }
            for one in checks.violations
        ],
        "synchrony": {
            "tightness_ns": measures.synchrony.tightness_ns,
            "steadiness_ns": measures.synchrony.steadiness_ns,
            "uncertainty_ns": measures.synchrony.uncertainty_ns,
        },
        "clocks": {
            process: {"offset_min_ns": one.offset_min_ns, "offset_max_ns": one.offset_max_ns}
            for process, one in measures.clocks.items()
        },
        "references": list(measures.references),
        "epsilon": {"min_ns": measures.epsilon_min_ns, "max_ns": measures.epsilon_max_ns},
        "delta_ns": measures.delta_ns,
        "delays": {"histogram": list(histogram(delays_of(ran))), "count": len(received)},
        "lateness": [{"delta_ns": one.delta_ns, "late": one.late} for one in measures.lateness],
        "concurrency": measures.concurrency,
        "hidden_channels": [{"resource": "item-6", "earlier": "stock:17", "later": "web:3", "apart_ns": 81_234_567}],
        "processes_table": [process_row(process, ran) for process in history.processes],
        "rejected_reasons": {"bad-line": 2, "duplicate": 1},
        "rejected_examples": [
            {
                "reason": "bad-line",
                "detail": "the line is not JSON",
                "file": "logs/cart.jsonl",
                "line": 7,
                "text": '{"process": "cart", "index": 7, "na',
            },
            {"reason": "duplicate", "detail": "cart:3 was there already", "file": None, "line": None, "text": ""},
        ],
        "inputs": [{"path": "logs/cart.jsonl", "format": "native", "events": 108, "bytes": 17_204}],
        "notes": list(measures.notes),
        "seconds": {"read": 1.23, "match": 0.41, "stamp": 2.5, "check": 0.9, "write": 0.05},
        "version": "0.1.0",
    }


def failure_of(history: History, failure: Event) -> dict[str, object]:
    explanation = history.explain(failure, last=25)
    return {
        "event": str(failure.id),
        "process": failure.process,
        "name": failure.name,
        "time": failure.time,
        "attributes": dict(failure.attributes),
        "past": explanation.past,
        "events": [
            {
                "id": str(event.id),
                "process": event.process,
                "index": event.index,
                "kind": event.kind.value,
                "name": event.name,
                "time": event.time,
                "attributes": dict(event.attributes),
            }
            for event in explanation.events
        ],
    }


def delays_of(events: list[Event]) -> list[int]:
    sent = {message: event.time or 0 for event in events for message in event.sends}
    return [(event.time or 0) - sent[message] for event in events for message in event.receives]


def histogram(delays: list[int]) -> Iterator[list[int]]:
    """Four bins per power of ten, on both sides of zero."""
    exponents = Counter(math.copysign(1 + math.floor(4 * math.log10(max(abs(one), 1))), one) for one in delays)
    for exponent in range(int(min(exponents)), int(max(exponents)) + 1):
        low, high = (round(10 ** ((abs(exponent) - less) / 4)) for less in (1, 0))
        if exponent:
            yield [*((-high, -low) if exponent < 0 else (low, high)), exponents[exponent]]


def process_row(process: str, events: list[Event]) -> dict[str, object]:
    own = [event for event in events if event.process == process]
    return {
        "process": process,
        "events": len(own),
        "sends": sum(len(event.sends) for event in own),
        "receives": sum(len(event.receives) for event in own),
        "first_time": own[0].time,
        "last_time": own[-1].time,
        "gaps": 0,
    }


def shop_pictures() -> dict[str, Figure]:
    history = History(shop_run(seed=1))
    failure = next(event for event in history.order() if event.attributes.get("level") == "error")
    marks = Marks(
        selected=failure.id,
        past=frozenset(event.id for event in history.past(failure)),
        future=frozenset(event.id for event in history.future(failure)),
    )
    violation = history.check().violations[0]
    wrong = Marks(violating_messages=violation.messages[:1], violations=violation.events[-2:])
    options = LayoutOptions(events_max=28)
    return {
        "failure:0": figure(history.order(), marks=marks, options=options),
        "violation:0": figure(history.order(), marks=wrong, options=options),
    }


def check_page(document: str) -> Page:
    """What every page must keep, whatever stood in the report."""
    document.encode()
    # The frame of the diagrams is ours alone, the same in every page, and inert until a script takes it.
    before, frame, after = document.partition(drawn_frame())
    assert drawn_frame() not in after
    page = Page(before + after)
    assert max(page.ids.values()) == 1, [one for one, times in page.ids.items() if times > 1]
    assert not [one for one in page.addresses if not one.startswith("#")]
    assert {address[1:] for address in page.addresses} <= page.ids.keys()
    assert not {name for name in page.names if name.startswith("on") or name == "style"}
    assert page.elements["script"] == (2 if frame else 1)  # The data of the diagrams and the program.
    assert page.elements["style"] == 1
    foreign = {"iframe", "object", "embed", "img", "link", "base", "form", "audio", "video", "image", "foreignobject"}
    assert not foreign & page.elements.keys()
    assert not re.findall(r"url\((?!#)|@import|(?:src|href)=[\"']?(?:https?:)?//", document)
    return page


SHOP = report_page(shop_report(), shop_pictures())


def test_the_shop_gives_a_whole_page_with_its_pictures() -> None:
    page = check_page(SHOP)

    assert page.elements["svg"] > 3
    assert page.elements["section"] == 12


def test_the_headline_says_what_failed_first_and_how_many_violations_there_are() -> None:
    text = check_page(SHOP).text

    assert "First failure: checkout failed, on orders" in text
    assert "1 violation : 1 of causal order." in text.replace("violation:", "violation :")


def test_a_failure_is_explained_in_causal_order_and_stands_last() -> None:
    text = check_page(SHOP).text

    at = [text.index(f" {name} ", text.index("the failure is last")) for name in ("stock:17", "cart:36", "orders:17")]
    assert at == sorted(at)
    assert "happened before it and could have led to it. These are the last 25" in text


def test_a_violation_has_its_sentence_and_its_reasons() -> None:
    text = check_page(SHOP).text

    assert "orders:18 received 'reservation-6' after 'checkout-6' (at orders:16)" in text
    assert "stock:18 sent 'confirmed-6', which cart:33 received" in text


def test_a_picture_stands_inside_its_item() -> None:
    start = SHOP.index('id="violation-0"')

    assert 'class="arrow violation"' in SHOP[start : SHOP.index("</details>", start)]
