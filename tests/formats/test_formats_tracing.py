"""Logs of `tracing`: real messages by token, the rest from clocks, and the twin in ShiViz's format."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.vector_logs.shiviz import read_shiviz
from beforehand.formats.vector_logs.tracing import read_tracing
from beforehand.formats.vector_logs.whole_text import TextLimits
from beforehand.history import History
from real_data import real_file
from vector_logs import check_order, clocks, random_history, split


def record(process: str, clock: dict[str, int], tag: str = "Tag", body: object = None) -> bytes:
    return json.dumps(
        {"TracerIdentity": process, "TraceID": 18446744073709551615, "Tag": tag, "Body": body, "VectorClock": clock}
    ).encode()


def read(*lines: bytes, limits: TextLimits | None = None) -> tuple[list[Event], list[Rejection]]:
    return split(read_tracing(io.BytesIO(b"\n".join(lines)), file="f", limits=limits or TextLimits()))


def test_tokens_are_real_messages() -> None:
    events, rejections = read(
        record("a", {"a": 1}, "GenerateTokenTrace", {"Token": "t1"}),
        record("b", {"a": 1, "b": 1}, "ReceiveTokenTrace", {"Token": "t1"}),
        record("b", {"a": 1, "b": 2}, "Mentions", {"Token": "t1"}),
    )

    assert not rejections
    assert [(e.sends, e.receives) for e in events] == [(("t1",), ()), ((), ("t1",)), ((), ())]


def test_what_clocks_know_beyond_tokens_is_inferred() -> None:
    events, rejections = read(
        record("a", {"a": 1}),
        record("b", {"a": 1, "b": 1}),
        record("c", {"a": 1, "b": 1, "c": 1}, "ReceiveTokenTrace", {"Token": "never sent"}),
    )

    assert not rejections
    assert [(e.sends, e.receives) for e in events] == [
        (("~a:1",), ()),
        (("~b:1",), ("~a:1",)),
        ((), ("never sent", "~b:1")),
    ]


def test_body_and_trace_become_attributes_exactly() -> None:
    [event], _ = read(
        record("a", {"a": 1}, "T", {"s": "é", "n": 12345678901234567890, "o": {"x": [1, None]}, "TraceID": "own"})
    )

    assert event.name == "T"
    assert event.attributes == {
        "TraceID": "18446744073709551615",
        "s": "é",
        "n": "12345678901234567890",
        "o": '{"x":[1,null]}',
        "Body.TraceID": "own",
    }


@pytest.mark.parametrize(("body", "attributes"), [(None, {}), ([1], {"Body": "[1]"}), ("x", {"Body": "x"})])
def test_body_may_be_anything(body: object, attributes: dict[str, str]) -> None:
    [event], _ = read(record("a", {"a": 1}, "GenerateTokenTrace", body))

    assert event.attributes == {"TraceID": "18446744073709551615", **attributes}
    assert event.sends == ()


@pytest.mark.parametrize("token", ["", "~a:1", "~other", 7, None])
def test_unusable_token_leaves_the_clocks_to_tell(token: object) -> None:
    events, _ = read(
        record("a", {"a": 1}, "GenerateTokenTrace", {"Token": token}),
        record("b", {"a": 1, "b": 1}, "ReceiveTokenTrace", {"Token": token}),
    )

    assert [(e.sends, e.receives) for e in events] == [(("~a:1",), ()), ((), ("~a:1",))]


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        (b"{", "not-json", "not JSON"),
        (b"\xff", "not-json", "not JSON"),
        (b"[]", "not-an-event", "not an object"),
        (b"{}", "not-an-event", "TracerIdentity is null"),
        (b'{"TracerIdentity":7,"Tag":"x","VectorClock":{}}', "not-an-event", "TracerIdentity is 7"),
        (b'{"TracerIdentity":"a","VectorClock":{"a":1}}', "not-an-event", "Tag is null"),
        (b'{"TracerIdentity":"","Tag":"x","VectorClock":{"":1}}', "not-an-event", "empty"),
        (b'{"TracerIdentity":"a","Tag":"x"}', "not-a-clock", "null"),
        (b'{"TracerIdentity":"a","Tag":"x","VectorClock":{"a":-1}}', "not-a-clock", "-1"),
        (b'{"TracerIdentity":"a","Tag":"x","VectorClock":{"a":1.5}}', "not-a-clock", "1.5"),
        (b'{"TracerIdentity":"a","Tag":"x","VectorClock":{"b":1}}', "no-own-entry", '"a"'),
        (b'{"TracerIdentity":"a","Tag":"x","Tag":"y","VectorClock":{"a":1}}', "key-twice", "Tag"),
        (b'{"TracerIdentity":"a","Tag":"x","Body":' + b"[" * 99 + b"]" * 99 + b"}", "too-deep", "nested"),
        (b"x" * 2_000_000, "line-too-long", "2000000"),
    ],
)
def test_line_is_refused_and_reading_goes_on(line: bytes, reason: str, says: str) -> None:
    events, [rejection] = read(record("a", {"a": 1}), b"", line, record("a", {"a": 2}))

    assert [e.index for e in events] == [1, 2]
    assert (rejection.reason, rejection.file, rejection.line) == (reason, "f", 3)
    assert says in rejection.detail


def test_text_beyond_the_limit_is_an_error() -> None:
    with pytest.raises(InputError, match="f: more than 100 bytes"):
        read(record("a", {"a": 1}), limits=TextLimits(text_bytes_max=100))


def test_empty_log_gives_nothing() -> None:
    assert read(b"\xef\xbb\xbf", b" \r") == ([], [])


@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.5, 1.0]))
def test_log_gives_back_the_order_that_it_was_written_from(seed: int, real: float) -> None:
    random, steps = random_history(seed)
    senders = {message: step for step in steps for message in step.sends}
    lines = []
    for step, clock in zip(steps, clocks(steps), strict=True):
        tag, body = "Local", {}
        # Some messages are named, where one record can do so; the rest is for the clocks.
        if len(step.sends) == 1 and random.random() < real:
            tag, body = "GenerateTokenTrace", {"Token": step.sends[0]}
        elif len(step.receives) == 1 and len(senders[step.receives[0]].sends) == 1 and random.random() < real:
            tag, body = "ReceiveTokenTrace", {"Token": step.receives[0]}
        lines.append(record(step.process, clock, tag, body))
    random.shuffle(lines)

    events, rejections = read(*lines)

    assert not rejections
    history = check_order(events, steps)
    assert history.check().counts["clock"] == 0


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_give_findings(lines: list[bytes]) -> None:
    events, _ = read(*lines)

    assert not events


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abTken", max_size=2), inner, max_size=2),
    max_leaves=5,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "TracerIdentity": st.sampled_from("ab") | JSON_VALUES,
                "Tag": st.sampled_from(["x", "GenerateTokenTrace"]),
            },
            optional={
                "VectorClock": st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)) | JSON_VALUES,
                "Body": st.dictionaries(st.sampled_from(["Token", "TraceID"]), JSON_VALUES) | JSON_VALUES,
                "TraceID": JSON_VALUES,
                "more": JSON_VALUES,
            },
        ),
        max_size=4,
    )
)
def test_records_of_any_values_give_findings(records: list[dict[str, object]]) -> None:
    events, rejections = read(*[json.dumps(each).encode() for each in records])

    assert len(events) + sum(r.reason != "unsent" for r in rejections) == len(records)
    History(events)


def test_real_log_pairs_all_but_one_message() -> None:
    events, rejections = split(read_tracing(real_file("tracing/example2.log")))
    history = History(events)

    assert not rejections
    assert len(history) == 625
    sent = {message for e in events for message in e.sends}
    received = {message for e in events for message in e.receives}
    assert len(sent) == 150
    assert len(sent - received) == 1
    assert not received - sent
    assert not any(message.startswith("~") for message in sent)
    assert history.check().counts["clock"] == 0
    assert events[0].attributes["TraceID"] == "6536993704225200611"


def test_real_log_agrees_with_its_twin_event_by_event() -> None:
    events, rejections = split(read_tracing(real_file("tracing/echo.log")))
    twins, twin_rejections = split(read_shiviz(real_file("tracing/echo-shiviz.log")))
    history, twin = History(events), History(twins)

    assert not rejections
    assert not twin_rejections
    assert [(e.id, e.clock) for e in events] == [(e.id, e.clock) for e in twins]
    assert all(t.name.startswith(f"{e.attributes['TraceID']} {e.name} ") for e, t in zip(events, twins, strict=True))
    assert [bool(e.receives) for e in events] == [bool(e.receives) for e in twins]
    assert (history.stamps == twin.stamps).all()
    assert history.check().counts["clock"] == twin.check().counts["clock"] == 0
    assert len(events) == 169
