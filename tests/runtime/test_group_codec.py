"""Packets and snapshots as bytes: what simulated runs send comes back equal, and no bytes make anything else."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from beforehand.clocks import View
from beforehand.errors import InputError, RemoteProtocolError
from beforehand.ordering import PROTOCOLS, Fifo, Frame, Message, ReliableLink
from beforehand.ordering.effects import Transmit
from beforehand.ordering.fifo import FifoSnapshot
from beforehand.runtime import codec
from beforehand.runtime.codec import PACKET_BYTES_MAX, SnapshotEncoder, decode_packet, decode_snapshot, encode
from beforehand.sim import draw, simulate
from beforehand.sim.world import World


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What members of simulated runs transmit; their snapshots go through the codec on the way."""
    packets: list[Any] = []
    encoders: dict[str, SnapshotEncoder] = {}
    transmit, perform = World._transmit, World._perform

    def watched(world: World, member: Any, effect: Transmit) -> None:
        packets.append(effect.packet)
        transmit(world, member, effect)

    def stored(world: World, member: Any, effects: Any) -> None:
        snapshot = member.protocol.snapshot()
        data = encode(snapshot)
        assert decode_snapshot(data) == snapshot
        assert encoders.setdefault(member.name, SnapshotEncoder()).encode(snapshot) == data
        perform(world, member, effects)

    monkeypatch.setattr(World, "_transmit", watched)
    monkeypatch.setattr(World, "_perform", stored)
    return packets


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_packets_and_snapshots_come_back_equal(protocol: str, sent: list[Any]) -> None:
    for seed in range(4):
        assert simulate(draw(protocol, seed)).verdict.failures == ()  # What the codec raises is one.
    assert sent
    for packet in sent:
        back = decode_packet(encode(packet))
        assert back == packet
        assert type(back) is type(packet)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_changed_packets_are_packets_or_refused(protocol: str, sent: list[Any]) -> None:
    simulate(draw(protocol, 1))
    choose = random.Random(protocol)
    for packet in sent[:: max(1, len(sent) // 40)]:
        data = bytearray(encode(packet))
        for _ in range(20):
            at = choose.randrange(len(data))
            changed = bytes(data[:at] + bytes([choose.randrange(256)]) + data[at + choose.randrange(3) :])
            said = ""
            try:
                decode_packet(changed)
            except RemoteProtocolError as error:
                said = str(error)
            assert len(said) < 300
            assert "\n" not in said


DEEP = b"\x91" * 100_000 + b"\xc0"
HOSTILE = [
    b"",
    b"\xc1",
    DEEP,
    b"\xdd\xff\xff\xff\xff",  # An array of four thousand million parts.
    msgspec.msgpack.encode({"Frame": [1, 2]}),
    msgspec.msgpack.encode({"Frame": [-1, None, 0, []]}),
    msgspec.msgpack.encode({"Frame": [1, {"FifoSnapshot": [0, [], [], []]}, 0, []]}),
    msgspec.msgpack.encode({"__class__": ["os.system"]}),
    msgspec.msgpack.encode({"Frame": "no list"}),
    msgspec.msgpack.encode({"View": [["a", "a"], 0, b""]}),
    msgspec.msgpack.encode({"Message": ["a", 1, ["b"], b"", "fifo"]}),
    msgspec.msgpack.encode({"Level": ["none"]}),
    msgspec.msgpack.encode({"VectorStamp": [7]}),
    msgspec.msgpack.encode({"frozenset": [[1]]}),
    msgspec.msgpack.encode({1: [2]}),
    msgspec.msgpack.encode({"a": [], "b": []}),
    msgspec.msgpack.encode(1.5),
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_packet_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a packet"):
        decode_packet(data)


def test_random_bytes_are_refused_or_plain() -> None:
    choose = random.Random(5)
    for _ in range(3_000):
        try:
            made = decode_packet(choose.randbytes(choose.randrange(40)))
        except RemoteProtocolError:
            continue
        assert isinstance(made, int | str | bytes | tuple | None)


def test_a_packet_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(RemoteProtocolError, match="the limit"):
        decode_packet(b"\xc0" * (PACKET_BYTES_MAX + 1))


def test_a_snapshot_is_no_packet_and_damaged_ones_are_told_of() -> None:
    snapshot = FifoSnapshot(1, (("b", 1),), (), ())
    assert decode_snapshot(encode(snapshot)) == snapshot
    with pytest.raises(RemoteProtocolError):
        decode_packet(encode(snapshot))
    with pytest.raises(InputError, match="not a snapshot"):
        decode_snapshot(encode(snapshot)[:-3])


def test_views_and_messages_keep_what_they_are() -> None:
    view = View(("a", "b"), number=3)
    message = Message(sender="a", number=1, to=("b",), payload=b"\0")
    frame = Frame(number=1, packet=message, mark=0)
    assert decode_packet(encode(view)) == view
    assert decode_packet(encode(frame)) == frame
    with pytest.raises(TypeError, match="set"):
        encode({1})


def test_a_packet_that_was_in_the_last_snapshot_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    link, encoder = ReliableLink(Fifo("a", View("ab"))), SnapshotEncoder()
    for number in range(100):
        link.send(b"%d" % number, ["b"], now=0)
    assert encoder.encode(link.snapshot()) == encode(link.snapshot())
    made: list[str] = []
    fields_of = codec._FIELDS

    class Watched(dict[type, Any]):
        def get(self, kind: type, default: Any = None) -> Any:
            made.append(kind.__name__)
            return fields_of.get(kind, default)

    monkeypatch.setattr(codec, "_FIELDS", Watched(fields_of))
    for more in (1, 2, 3):
        link.send(b"one more", ["b"], now=0)
        data = encoder.encode(link.snapshot())
        assert made.count("FifoPacket") == more
    monkeypatch.undo()
    assert data == encode(link.snapshot())
