"""Programs on a real network: publishers and live mergers on NATS, with asyncio.

| name             | for                                                                |
|------------------|--------------------------------------------------------------------|
| `connect`        | a connection to a broker with JetStream                            |
| `EmbeddedBroker` | a broker of one's own: for tests, and to try things out            |
| `Publisher`      | stamps messages and puts them on channels                          |
| `LiveMerger`     | reads a stream and releases its messages in one causal order       |
| `StreamOutput`   | where a merger writes: a stream, exactly once                      |
| `LineOutput`     | where a merger writes: lines of JSON                               |

Needs nats-py: the extra `nats`; a broker comes with the extra `broker`.
"""

from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.live_merge import LiveLimits, LiveMerger, MergeFigures
from beforehand.runtime.merge_output import LineOutput, StreamOutput
from beforehand.runtime.nats import Connection, StreamAddress, connect, ensure_stream
from beforehand.runtime.publisher import Publisher
from beforehand.runtime.stream_reader import Fetched, Stored, StreamReader

__all__ = [
    "Connection",
    "EmbeddedBroker",
    "Fetched",
    "LineOutput",
    "LiveLimits",
    "LiveMerger",
    "MergeFigures",
    "Publisher",
    "Stored",
    "StreamAddress",
    "StreamOutput",
    "StreamReader",
    "connect",
    "ensure_stream",
]
