"""Packets and snapshots of protocols as bytes (MessagePack), and back.

1. What was encoded is decoded as an equal value of the same types.
2. `decode_packet` makes nothing but packets, whatever the bytes are, or raises RemoteProtocolError. Every packet
   validates itself as it is made. Size and depth are bounded before anything is made.
3. `decode_snapshot` reads what this program wrote to its own disk; InputError if it cannot.

Tuples are arrays. Everything else that is not plain is a map with one key, its tag: the name of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final

import msgspec

from beforehand.clocks.bounded import BoundedStamp
from beforehand.clocks.matrix import MatrixStamp
from beforehand.clocks.offset import OffsetStamp
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.vector import VectorStamp
from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, InputError, RemoteProtocolError
from beforehand.ordering import (
    causal_broadcast,
    causal_domain,
    causal_merge,
    causal_unicast,
    confirmations,
    coordinator,
    fifo,
    flush,
    group_leaders,
    independent_sends,
    lamport_total,
    membership_state,
    message,
    protocol,
    reliable_link,
    rendezvous,
    roster,
    rotating_token,
    schiper_causal,
    single_phase,
    skeen,
    stability,
    timed_delivery,
    unordered,
    view_change,
)
from beforehand.ordering.protocol import Owed
from beforehand.runtime import state_packets

__all__ = ["PACKET_BYTES_MAX", "SnapshotEncoder", "decode_packet", "decode_snapshot", "encode"]

PACKET_BYTES_MAX: Final = 16 * 1024 * 1024
DEPTH_MAX: Final = 24
STAMP_BYTES_MAX: Final = 1024 * 1024

_PACKETS: Final[tuple[type, ...]] = (
    reliable_link.Frame,
    flush.Ballot,
    flush.InView,
    flush.Acknowledged,
    flush.Awaited,
    flush.Stable,
    flush.Prepare,
    flush.Proposed,
    flush.Accepted,
    flush.Reported,
    flush.Install,
    flush.Outvoted,
    flush.Behind,
    flush.Gone,
    flush.Welcome,
    message.Message,
    protocol.Held,
    causal_broadcast.CausalBroadcastPacket,
    causal_merge.MergeMessage,
    causal_unicast.CausalUnicastPacket,
    confirmations.SinglePhaseConfirmation,
    coordinator.CoordinatorRequest,
    coordinator.CoordinatorOrder,
    coordinator.CoordinatorReceipt,
    fifo.FifoPacket,
    group_leaders.GroupLeadersPacket,
    independent_sends.IndependentSendsPacket,
    lamport_total.LamportMessage,
    lamport_total.LamportTime,
    rendezvous.RendezvousMessage,
    rendezvous.RendezvousRequest,
    rendezvous.RendezvousPermission,
    rendezvous.RendezvousAcknowledgement,
    rotating_token.Token,
    rotating_token.TokenMessage,
    rotating_token.TokenRequest,
    schiper_causal.SchiperPacket,
    single_phase.SinglePhaseOperation,
    single_phase.SinglePhaseAcknowledgement,
    skeen.SkeenOffer,
    skeen.SkeenProposal,
    skeen.SkeenFinal,
    timed_delivery.TimedMessage,
    unordered.UnorderedPacket,
    MatrixStamp,
    BoundedStamp,
    OffsetStamp,
    state_packets.StateWanted,
    state_packets.StatePiece,
    state_packets.StateTaken,
    state_packets.StateDropped,
)
_SNAPSHOTS: Final[tuple[type, ...]] = (
    reliable_link.LinkSnapshot,
    reliable_link.PeerSnapshot,
    membership_state.MembershipSnapshot,
    roster.RosterSnapshot,
    stability.StabilitySnapshot,
    view_change.ViewChangeSnapshot,
    causal_broadcast.CausalBroadcastSnapshot,
    causal_domain.DomainSnapshot,
    causal_merge.CausalMergeSnapshot,
    causal_unicast.CausalUnicastSnapshot,
    confirmations.ConfirmationState,
    coordinator.CoordinatorSnapshot,
    fifo.FifoSnapshot,
    group_leaders.GroupLeadersSnapshot,
    independent_sends.IndependentSendsSnapshot,
    independent_sends.Remembered,
    lamport_total.LamportTotalSnapshot,
    rendezvous.RendezvousSnapshot,
    rotating_token.RotatingTokenSnapshot,
    schiper_causal.SchiperSnapshot,
    single_phase.SinglePhaseSnapshot,
    skeen.SkeenSnapshot,
    timed_delivery.TimedDeliverySnapshot,
    unordered.UnorderedSnapshot,
    state_packets.Turn,
)
_FIELDS: Final = {kind: tuple(field.name for field in fields(kind)) for kind in (*_PACKETS, *_SNAPSHOTS)}
_OF_PACKETS: Final = frozenset(_PACKETS)
_PLAIN: Final = frozenset((type(None), bool, int, str, bytes))

_Make = Callable[..., Any]


def encode(value: Any) -> bytes:
    """A packet or a snapshot as bytes."""
    return _ENCODER.encode(_plain(value))


class SnapshotEncoder:
    """Encodes one snapshot of a protocol after the other, as `encode` does.

    A member that waits for another keeps thousands of packets, and each of its snapshots has all of them. Packets
    never change: one that was in the last snapshot is not encoded again. The cost still grows with their number.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, msgspec.Raw]] = {}  # Packets of the last snapshot by identity, kept alive.

    def encode(self, snapshot: Any) -> bytes:
        seen: dict[int, tuple[Any, msgspec.Raw]] = {}
        data = _ENCODER.encode(self._plain(snapshot, seen))
        self._known = seen
        return data

    def _plain(self, value: Any, seen: dict[int, tuple[Any, msgspec.Raw]]) -> Any:
        kind = type(value)
        if kind is tuple:
            return self._parts(value, seen)
        names = _FIELDS.get(kind)
        if names is None:
            return _plain(value)
        plain = {kind.__name__: self._parts([getattr(value, name) for name in names], seen)}
        if kind not in _OF_PACKETS:
            return plain
        seen[id(value)] = (value, raw := msgspec.Raw(_ENCODER.encode(plain)))
        return raw

    def _parts(self, values: Sequence[Any], seen: dict[int, tuple[Any, msgspec.Raw]]) -> list[Any]:
        """Without a call for each of those that are plain or known, which nearly all are."""
        known, parts = self._known, []
        for value in values:
            if type(value) in _PLAIN:
                parts.append(value)
            elif (found := known.get(id(value))) is not None:
                seen[id(value)] = found
                parts.append(found[1])
            else:
                parts.append(self._plain(value, seen))
        return parts


def decode_packet(data: bytes) -> Any:
    """The packet that a peer sent; RemoteProtocolError if it is none."""
    if len(data) > PACKET_BYTES_MAX:
        raise RemoteProtocolError(f"a packet of {len(data)} bytes: the limit is {PACKET_BYTES_MAX}")
    try:
        return _made(_DECODER.decode(data), _PACKET_MAKERS, DEPTH_MAX)
    except (msgspec.MsgspecError, BeforehandError, TypeError, ValueError, RecursionError, OverflowError) as error:
        why = " ".join(str(error).split())[:200]
        raise RemoteProtocolError(f"not a packet: {why}") from None


def decode_snapshot(data: bytes) -> Any:
    """What `encode` made of a snapshot; InputError if the bytes are none."""
    try:
        return _made(_DECODER.decode(data), _SNAPSHOT_MAKERS, DEPTH_MAX)
    except (msgspec.MsgspecError, BeforehandError, TypeError, ValueError, RecursionError, OverflowError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"not a snapshot of this version: {why}") from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return [_plain(each) for each in value]
    names = _FIELDS.get(kind)
    if names is not None:
        return {kind.__name__: [_plain(getattr(value, name)) for name in names]}
    if kind is message.Level or kind is Owed:
        return {kind.__name__: [value.value]}
    if kind is View:
        return {"View": [list(value.processes), value.number, value.base.encode(limit=STAMP_BYTES_MAX)]}
    if kind is VectorStamp or kind is OrderingStamp:
        return {kind.__name__: [value.encode(limit=STAMP_BYTES_MAX)]}
    if kind is frozenset:
        return {"frozenset": [[_plain(each) for each in sorted(value)]]}
    raise TypeError(f"a {kind.__name__} is no part of a packet or snapshot")


def _made(value: Any, makers: Mapping[str, _Make], depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if not depth:
        raise ValueError("it is nested too deeply")
    if kind is list:
        return tuple([_made(each, makers, depth - 1) for each in value])
    if kind is not dict or len(value) != 1:
        raise ValueError(f"it contains a {kind.__name__}")
    ((tag, parts),) = value.items()
    make = makers.get(tag) if type(tag) is str else None
    if make is None or type(parts) is not list:
        raise ValueError("it contains something unknown")
    return make(*[_made(each, makers, depth - 1) for each in parts])


def _maker(kind: type) -> _Make:
    names = _FIELDS[kind]
    least = sum(field.default is MISSING and field.default_factory is MISSING for field in fields(kind))

    def make(*parts: Any) -> Any:
        if not least <= len(parts) <= len(names):  # What an earlier version wrote may lack the last ones.
            raise ValueError(f"a {kind.__name__} has {len(names)} parts, not {len(parts)}")
        return kind(**dict(zip(names, parts, strict=False)))

    return make


def _view(processes: Any, number: Any, base: Any) -> View:
    if type(processes) is not tuple or not all(type(name) is str for name in processes):
        raise ValueError("a view is a list of names")
    if type(number) is not int or number < 0:
        raise ValueError("a view has a number from 0")
    return View(processes, number=number, base=_stamp(VectorStamp, base))


def _stamp(kind: type[VectorStamp] | type[OrderingStamp], data: Any) -> Any:
    if type(data) is not bytes:
        raise ValueError("a stamp is made of bytes")
    return kind.decode(data, limit=STAMP_BYTES_MAX)


def _set(parts: Any) -> frozenset[Any]:
    if type(parts) is not tuple:
        raise ValueError("a set is made of a list")
    return frozenset(parts)


_COMMON: Final[dict[str, _Make]] = {
    "Level": message.Level,
    "View": _view,
    "VectorStamp": lambda data: _stamp(VectorStamp, data),
    "OrderingStamp": lambda data: _stamp(OrderingStamp, data),
}
_PACKET_MAKERS: Final[Mapping[str, _Make]] = _COMMON | {kind.__name__: _maker(kind) for kind in _PACKETS}
_SNAPSHOT_MAKERS: Final[Mapping[str, _Make]] = {**_PACKET_MAKERS, "frozenset": _set, "Owed": Owed} | {
    kind.__name__: _maker(kind) for kind in _SNAPSHOTS
}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder()
