"""Stamps and the clocks that issue them.

| clock           | compare        | size of a stamp       | for                                              |
|-----------------|----------------|-----------------------|--------------------------------------------------|
| `VectorClock`   | exact          | one entry per process | knowing what could have caused what              |
| `OrderingClock` | exact          | up to n²              | receiving in causal order, and recording any event |
| `MatrixClock`   | exact on sends | n²                    | causal order in a fixed group                    |
| `LamportClock`  | one direction  | constant              | a total order that agrees with causality         |
| `BoundedClock`  | one direction  | constant, bounded     | merging with bounded delay; mends itself         |
| `OffsetClock`   | one direction  | constant              | the same without bounds, or with quiet windows   |
| `HybridClock`   | one direction  | 64 bits               | times that agree with causality                  |

This room imports the standard library only.
"""

from beforehand.clocks.bounded import BoundedClock, BoundedStamp, Bounds, Held, Received, Refusal, Refused
from beforehand.clocks.difference import DifferenceDecoder, DifferenceEncoder
from beforehand.clocks.hybrid import HybridClock, HybridStamp
from beforehand.clocks.lamport import LamportClock, LamportStamp
from beforehand.clocks.matrix import MatrixClock, MatrixStamp
from beforehand.clocks.offset import OffsetClock, OffsetStamp, QuietWindows
from beforehand.clocks.ordering import ObserverClock, OrderingClock
from beforehand.clocks.ordering_stamp import OrderingStamp
from beforehand.clocks.peers import PeerPolicy
from beforehand.clocks.relation import Relation
from beforehand.clocks.sequence import SequenceSet
from beforehand.clocks.vector import VectorClock, VectorStamp
from beforehand.clocks.view import View
from beforehand.clocks.wire import Stamp, StampKind

__all__ = [
    "BoundedClock",
    "BoundedStamp",
    "Bounds",
    "DifferenceDecoder",
    "DifferenceEncoder",
    "Held",
    "HybridClock",
    "HybridStamp",
    "LamportClock",
    "LamportStamp",
    "MatrixClock",
    "MatrixStamp",
    "ObserverClock",
    "OffsetClock",
    "OffsetStamp",
    "OrderingClock",
    "OrderingStamp",
    "PeerPolicy",
    "QuietWindows",
    "Received",
    "Refusal",
    "Refused",
    "Relation",
    "SequenceSet",
    "Stamp",
    "StampKind",
    "VectorClock",
    "VectorStamp",
    "View",
]
