"""Programs on a real network, with asyncio: groups over TCP or NATS, publishers and live mergers on NATS.

| name             | for                                                                |
|------------------|--------------------------------------------------------------------|
| `Group`          | members that deliver each other's messages in a chosen order       |
| `TcpTransport`   | packets of a group over TCP                                        |
| `NatsTransport`  | packets of a group over a stream of NATS                           |
| `ReplicatedMap`  | a map that all members share; `ReplicatedStateMachine`: any state  |
| `read_journal`   | what a member did, as events                                       |
| `connect`        | a connection to a broker with JetStream                            |
| `EmbeddedBroker` | a broker of one's own: for tests, and to try things out            |
| `Publisher`      | stamps messages and puts them on channels                          |
| `LiveMerger`     | reads a stream and releases its messages in one causal order       |
| `StreamOutput`   | where a merger writes: a stream, exactly once                      |
| `LineOutput`     | where a merger writes: lines of JSON                               |

What uses NATS needs nats-py, the extra `nats`, and is loaded when it is first used; a broker comes with the extra
`broker`. Groups over TCP need neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.group import Group, Handler
from beforehand.runtime.group_figures import GroupFigures, GroupLimits
from beforehand.runtime.group_store import read_journal
from beforehand.runtime.replicated import Machine, ReplicatedMap, ReplicatedStateMachine
from beforehand.runtime.transports.base import Transport, TransportFigures
from beforehand.runtime.transports.tcp import TcpTransport, Tls

if TYPE_CHECKING:
    from beforehand.runtime.live_merge import LiveLimits, LiveMerger, MergeFigures
    from beforehand.runtime.merge_output import LineOutput, StreamOutput
    from beforehand.runtime.nats import Connection, StreamAddress, connect, ensure_stream
    from beforehand.runtime.publisher import Publisher
    from beforehand.runtime.stream_reader import Fetched, Stored, StreamReader
    from beforehand.runtime.transports.nats import NatsTransport

__all__ = [
    "Connection",
    "EmbeddedBroker",
    "Fetched",
    "Group",
    "GroupFigures",
    "GroupLimits",
    "Handler",
    "LineOutput",
    "LiveLimits",
    "LiveMerger",
    "Machine",
    "MergeFigures",
    "NatsTransport",
    "Publisher",
    "ReplicatedMap",
    "ReplicatedStateMachine",
    "Stored",
    "StreamAddress",
    "StreamOutput",
    "StreamReader",
    "TcpTransport",
    "Tls",
    "Transport",
    "TransportFigures",
    "connect",
    "ensure_stream",
    "read_journal",
]

_PLACES: Final = {
    "Connection": "beforehand.runtime.nats",
    "Fetched": "beforehand.runtime.stream_reader",
    "LineOutput": "beforehand.runtime.merge_output",
    "LiveLimits": "beforehand.runtime.live_merge",
    "LiveMerger": "beforehand.runtime.live_merge",
    "MergeFigures": "beforehand.runtime.live_merge",
    "NatsTransport": "beforehand.runtime.transports.nats",
    "Publisher": "beforehand.runtime.publisher",
    "Stored": "beforehand.runtime.stream_reader",
    "StreamAddress": "beforehand.runtime.nats",
    "StreamOutput": "beforehand.runtime.merge_output",
    "StreamReader": "beforehand.runtime.stream_reader",
    "connect": "beforehand.runtime.nats",
    "ensure_stream": "beforehand.runtime.nats",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
