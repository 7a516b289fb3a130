"""Stamps on the wire: canonical, bounded, and never anything but a stamp or a typed error."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beforehand.clocks import (
    BoundedClock,
    BoundedStamp,
    Bounds,
    DifferenceDecoder,
    DifferenceEncoder,
    HybridStamp,
    LamportStamp,
    MatrixStamp,
    OffsetStamp,
    OrderingStamp,
    Stamp,
    StampKind,
    VectorStamp,
    View,
)
from beforehand.clocks.wire import VERSION
from beforehand.errors import (
    BeforehandError,
    BelowBaseError,
    BufferFullError,
    LocalProtocolError,
    NotInViewError,
    StampDecodeError,
    StampTooLargeError,
    UnknownBaseError,
    ViewMismatchError,
)

VIEW = View(["a", "b", "c"], base=VectorStamp({"a": 1}))
BIG = 10**7

names = st.one_of(st.sampled_from(["a", "b", "node-0001", "node-0002", "node-001"]), st.text(min_size=1, max_size=8))
names = names.filter(lambda name: not any("\ud800" <= char <= "\udfff" for char in name))
counts = st.one_of(st.integers(1, 200), st.integers(1, 2**63 - 1))
vectors = st.dictionaries(names, counts, max_size=8).map(VectorStamp)
some_vectors = st.dictionaries(names, counts, min_size=1, max_size=5).map(VectorStamp)


@st.composite
def ordering_stamps(draw: st.DrawFn) -> OrderingStamp:
    sender = draw(names)
    to = draw(st.dictionaries(names.filter(lambda name: name != sender), counts, min_size=1, max_size=3))
    time = draw(vectors).merged(VectorStamp({sender: draw(counts)}))
    return OrderingStamp(sender, to, time, draw(st.dictionaries(names, some_vectors, max_size=3)))


def bounded(r: int, c: int, kn: list[int]) -> BoundedStamp:
    return BoundedStamp(r, c, tuple(kn + kn), 1000)


class Form:
    """One stamp type with the way to read it back."""

    def __init__(self, kind: StampKind, stamps: st.SearchStrategy[Any], decode: Callable[..., Stamp], **options: Any):
        self.kind, self.stamps, self.decode, self.options = kind, stamps, decode, options

    def __repr__(self) -> str:
        return self.kind.name


FORMS = [
    Form(StampKind.LAMPORT, st.builds(LamportStamp, st.integers(0, 2**63 - 1), names), LamportStamp.decode),
    Form(StampKind.VECTOR, vectors, VectorStamp.decode),
    Form(StampKind.ORDERING, ordering_stamps(), OrderingStamp.decode),
    Form(
        StampKind.MATRIX,
        st.builds(
            lambda sender, cells: MatrixStamp(VIEW, sender, tuple(cells)),
            st.sampled_from("abc"),
            st.lists(st.integers(0, 2**63 - 1), min_size=9, max_size=9),
        ),
        lambda data, **options: MatrixStamp.decode(data, view=VIEW, **options),
    ),
    Form(
        StampKind.BOUNDED,
        st.builds(bounded, st.integers(4001, 5000), st.integers(0, 9), st.lists(st.integers(0, 300), max_size=6)),
        lambda data, **options: BoundedStamp.decode(data, near=5000, **options),
    ),
    Form(
        StampKind.OFFSET,
        st.builds(OffsetStamp, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)),
        OffsetStamp.decode,
    ),
    Form(StampKind.HYBRID, st.builds(HybridStamp, st.integers(0, 2**64 - 1)), HybridStamp.decode),
    Form(
        StampKind.VECTOR_IN_VIEW,
        st.fixed_dictionaries(
            {"a": st.integers(1, 2**63 - 1), "b": st.integers(0, 2**63 - 1), "c": st.integers(0, 99)}
        ).map(VectorStamp),
        lambda data, **options: VectorStamp.decode(data, view=VIEW, **options),
        view=VIEW,
    ),
]
forms = pytest.mark.parametrize("form", FORMS, ids=repr)


@forms
@given(data=st.data())
def test_a_stamp_survives_the_round_trip(form: Form, data: st.DataObject) -> None:
    stamp = data.draw(form.stamps)
    encoded = stamp.encode(limit=BIG, **form.options)
    assert encoded[0] == VERSION << 4 | form.kind
    assert form.decode(encoded, limit=BIG) == stamp
    assert form.decode(encoded, limit=BIG).encode(limit=BIG, **form.options) == encoded


@forms
@given(data=st.data())
def test_equal_stamps_have_equal_bytes(form: Form, data: st.DataObject) -> None:
    a, b = data.draw(form.stamps), data.draw(form.stamps)
    assert (a == b) == (a.encode(limit=BIG, **form.options) == b.encode(limit=BIG, **form.options))
    if a == b:
        assert hash(a) == hash(b)


@forms
@settings(max_examples=400)
@given(data=st.data())
def test_changed_bytes_are_refused_or_are_the_bytes_of_what_they_say(form: Form, data: st.DataObject) -> None:
    encoded = bytearray(data.draw(form.stamps).encode(limit=BIG, **form.options))
    for _ in range(data.draw(st.integers(1, 3))):
        match data.draw(st.sampled_from(["set", "cut", "insert"])):
            case "set":
                encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
            case "cut" if len(encoded) > 1:
                del encoded[data.draw(st.integers(0, len(encoded) - 1))]
            case _:
                encoded.insert(data.draw(st.integers(0, len(encoded))), data.draw(st.integers(0, 255)))
    check_decode(form, bytes(encoded))


@forms
@settings(max_examples=300)
@given(body=st.binary(max_size=60))
def test_random_bytes_are_a_stamp_or_a_typed_error(form: Form, body: bytes) -> None:
    check_decode(form, body)
    check_decode(form, bytes([VERSION << 4 | form.kind]) + body)


def check_decode(form: Form, data: bytes) -> None:
    try:
        stamp = form.decode(data, limit=BIG)
    except BeforehandError:
        return
    assert stamp.encode(limit=BIG, **form.options) == data


@forms
def test_hostile_counts_allocate_nothing(form: Form) -> None:
    huge = b"\xff" * 8 + b"\x7f"  # The largest number there is.
    rng = Random(1)
    tracemalloc.start()
    try:
        for tail in [huge, huge * 3, b"\x01" + huge, b"\x05" + huge * 2, *(rng.randbytes(900) for _ in range(200))]:
            check_decode(form, bytes([VERSION << 4 | form.kind]) + tail)
            check_decode(form, bytes([VERSION << 4 | form.kind]) + VIEW.tag + tail)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_front_coded_names_cannot_grow_beyond_their_bytes() -> None:
    # Each name repeats the whole one before it and adds a byte: squares of the size, if one let them.
    body = bytearray([VERSION << 4 | StampKind.VECTOR])
    entries = 4000
    body += bytes([entries & 0x7F | 0x80, entries >> 7])
    for i in range(entries):
        body += bytes([i & 0x7F | 0x80, i >> 7]) if i > 127 else bytes([i])
        body += b"\x01a"
    tracemalloc.start()
    try:
        with pytest.raises(StampDecodeError, match="too long together"):
            VectorStamp.decode(bytes(body), limit=BIG)
        assert tracemalloc.get_traced_memory()[1] < 64 * 3 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\x02", "version 0"),
        (b"\x1f", "unknown"),
        (b"\x11\x01\x01a", "lamport stamp"),
        (b"\x12\x01\x00\x01a\x00\x80\x00", "shortest form"),
        (b"\x12\x01\x00\x01a\x00" + b"\xff" * 9 + b"\x01", "63 bits"),
        (b"\x12\x01\x00\x01a\x00\x00", "zero"),
        (b"\x12\x01\x00\x01a\x00\x01\x00", "follow"),
        (b"\x12\x01\x00\x01\xff\x00\x01", "UTF-8"),
        (b"\x12\x01\x00\x00\x00\x01", "not empty"),
        (b"\x12\x02\x00\x01b\x00\x01a\x00\x01\x01", "sorted"),
        (b"\x12\x02\x00\x01a\x00\x01a\x00\x01\x01", "sorted"),
        (b"\x12\x02\x00\x02aa\x00\x02ab\x00\x01\x01", "sorted"),
        (b"\x12\x01\x05\x01a\x00\x01", "shares more"),
        (b"\x12\x01\x00\x01a\x08\x01", "shortest form"),
        (b"\x12\x7f", "promises 127"),
    ],
)
def test_bytes_that_are_no_vector_stamp_say_why(data: bytes, reason: str) -> None:
    with pytest.raises(StampDecodeError, match=reason):
        VectorStamp.decode(data)


def test_text_is_base64url_without_padding_and_has_one_form() -> None:
    stamp = VectorStamp({"cart": 17, "shop": 3})
    text = stamp.to_text()
    assert text == "EgIABGNhcnQABHNob3AAEQM"
    assert VectorStamp.from_text(text) == stamp
    for wrong in (text + "=", text[:-1] + "N", text + " ", "é" + text, text[:5] + "+" + text[6:], "A"):
        with pytest.raises(StampDecodeError):
            VectorStamp.from_text(wrong)


def test_a_stamp_above_the_limit_is_refused_and_never_truncated() -> None:
    stamp = VectorStamp({f"{i:05}, a process with a long name": i + 1 for i in range(200)})
    with pytest.raises(StampTooLargeError) as caught:
        stamp.encode()
    assert caught.value.limit == 1024
    encoded = stamp.encode(limit=BIG)
    assert caught.value.size == len(encoded)
    with pytest.raises(StampTooLargeError):
        VectorStamp.decode(encoded)
    with pytest.raises(StampTooLargeError):
        stamp.to_text(limit=len(encoded))  # The bytes would fit, the text does not.
    assert VectorStamp.decode(encoded, limit=BIG) == stamp


def test_in_a_view_128_processes_take_at_most_640_characters() -> None:
    rng = Random(5)
    view = View([f"process-{i}" for i in range(128)])
    for largest in (2_000_000, 500_000_000):
        stamp = VectorStamp({process: rng.randint(1, largest) for process in view.processes})
        assert len(stamp.to_text(view=view)) <= 640
        assert VectorStamp.from_text(stamp.to_text(view=view), view=view) == stamp


def test_behind_a_shared_cut_128_processes_take_at_most_200_characters() -> None:
    rng = Random(5)
    members = [f"process-{i}" for i in range(128)]
    cut = VectorStamp({process: rng.randint(1, 2**50) for process in members})
    view = View(members).after(cut, number=4)
    stamp = VectorStamp({process: cut[process] + rng.randint(0, 255) for process in members})
    assert len(stamp.to_text(view=view)) <= 200
    assert VectorStamp.from_text(stamp.to_text(view=view), view=view) == stamp


def test_a_stamp_of_another_view_is_refused() -> None:
    stamp = VectorStamp({"a": 2})
    for other in (View(["a", "c", "b"], base=VIEW.base), View(VIEW.processes, number=1, base=VIEW.base), View("abc")):
        with pytest.raises(ViewMismatchError):
            VectorStamp.decode(stamp.encode(view=VIEW), view=other)


def test_what_a_view_cannot_hold_is_refused() -> None:
    with pytest.raises(NotInViewError):
        VectorStamp({"a": 1, "z": 1}).encode(view=VIEW)
    with pytest.raises(BelowBaseError):
        VectorStamp({"b": 1}).encode(view=VIEW)
    with pytest.raises(LocalProtocolError):
        View(["a", "a"])
    with pytest.raises(NotInViewError):
        View(["a"], base=VectorStamp({"b": 1}))


def grown(rng: Random, stamp: VectorStamp) -> VectorStamp:
    return stamp.merged(VectorStamp({rng.choice("abcdefgh"): rng.randint(1, 300)}))


def test_differences_rebuild_every_stamp() -> None:
    rng = Random(2)
    encoder, decoder = DifferenceEncoder(epoch=1, full_every=10), DifferenceDecoder()
    stamp = VectorStamp()
    for _ in range(100):
        stamp = grown(rng, stamp)
        assert decoder.decode(encoder.encode(stamp)) == stamp


def test_a_difference_is_small() -> None:
    encoder = DifferenceEncoder(epoch=7)
    stamp = VectorStamp({f"node-{i:04}": 100_000 for i in range(50)})
    encoder.encode(stamp)
    changed = stamp.merged(VectorStamp({f"node-{i:04}": 100_001 for i in (3, 14, 15, 49)}))
    assert len(encoder.encode(changed)) <= 40


def test_a_lost_or_repeated_difference_is_refused_and_a_full_stamp_mends_it() -> None:
    rng = Random(3)
    encoder, decoder = DifferenceEncoder(epoch=1), DifferenceDecoder()
    first = VectorStamp({"a": 1})
    second, third = grown(rng, first), grown(rng, grown(rng, first))
    fourth = third.merged(second)
    decoder.decode(encoder.encode(first))
    lost = encoder.encode(second)
    with pytest.raises(UnknownBaseError) as caught:
        decoder.decode(encoder.encode(fourth))
    assert (caught.value.base, caught.value.have) == (2, 1)
    decoder.decode(lost)
    with pytest.raises(UnknownBaseError):
        decoder.decode(lost)
    encoder.restart()
    assert decoder.decode(encoder.encode(fourth)) == fourth


def test_a_repeated_full_stamp_does_not_take_the_decoder_back() -> None:
    encoder, decoder = DifferenceEncoder(epoch=1), DifferenceDecoder()
    full = encoder.encode(VectorStamp({"a": 1}))
    decoder.decode(full)
    decoder.decode(encoder.encode(VectorStamp({"a": 2})))
    assert decoder.decode(full) == VectorStamp({"a": 1})
    assert decoder.decode(encoder.encode(VectorStamp({"a": 3}))) == VectorStamp({"a": 3})
    # Nor does one from before the sender's restart.
    restarted = DifferenceEncoder(epoch=2)
    decoder.decode(restarted.encode(VectorStamp({"a": 4})))
    decoder.decode(full)
    assert decoder.decode(restarted.encode(VectorStamp({"a": 5}))) == VectorStamp({"a": 5})


def test_a_peer_cannot_fill_a_difference_decoder_with_names() -> None:
    encoder, decoder = DifferenceEncoder(epoch=1), DifferenceDecoder(entries_max=3)
    stamp = VectorStamp({"a": 1, "b": 1, "c": 1})
    decoder.decode(encoder.encode(stamp))
    with pytest.raises(BufferFullError):
        decoder.decode(encoder.encode(stamp.merged(VectorStamp({"d": 1}))))


def test_the_stamps_of_one_sender_only_grow() -> None:
    encoder = DifferenceEncoder(epoch=1)
    encoder.encode(VectorStamp({"a": 2}))
    with pytest.raises(LocalProtocolError, match="below the last"):
        encoder.encode(VectorStamp({"b": 1}))


def test_a_restarted_sender_is_not_taken_for_the_old_one() -> None:
    decoder = DifferenceDecoder()
    old, new = DifferenceEncoder(epoch=1), DifferenceEncoder(epoch=2)
    decoder.decode(old.encode(VectorStamp({"a": 1})))
    new.encode(VectorStamp({"a": 5}))  # Lost on the way.
    with pytest.raises(UnknownBaseError):
        decoder.decode(new.encode(VectorStamp({"a": 6})))


@given(st.binary(max_size=40))
def test_random_bytes_never_harm_a_difference_decoder(body: bytes) -> None:
    decoder = DifferenceDecoder()
    stamp = decoder.decode(DifferenceEncoder(epoch=1).encode(VectorStamp({"a": 1})))
    try:
        stamp = decoder.decode(bytes([VERSION << 4 | StampKind.VECTOR_DIFFERENCE]) + body)
    except BeforehandError:
        assert decoder._last == stamp


def test_a_bounded_stamp_unwraps_against_the_receivers_clock() -> None:
    bounds = Bounds(epsilon=2, delta=10, processes=3)
    sent = BoundedClock("a", bounds, now=10**12).tick(10**12 + 1)
    clock = BoundedClock("b", bounds, now=10**12)
    assert clock.decode(sent.encode(), 10**12 + 5) == sent
    with pytest.raises(LocalProtocolError, match="near="):
        BoundedStamp.decode(sent.encode())
