"""A trace in the JSON of Chrome and Perfetto: a track per process, a slice per event, an arrow per message.

Events stand at the latest clock reading in their past, moved by a nanosecond where needed, so that along a track and
along an arrow time never goes back, whatever the clocks said. The own reading is among the arguments. Times count
from the first event that has one, for the microseconds of the format are floats. An attribute called `id` or `time`
is there as `attribute.id`. Of a message that was sent twice, the first send in the order counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from beforehand.events import Event

__all__ = ["perfetto_trace"]

_encode = msgspec.json.encode


def perfetto_trace(events: Iterable[Event]) -> Iterator[bytes]:
    """The document in pieces. The events come in the deterministic order."""
    tracks: dict[tuple[str, str], int] = {}
    executions: dict[str, int] = {}
    last: dict[int, int] = {}  # Per track, where its last slice stands, in nanoseconds.
    sent: dict[tuple[str, str], tuple[int, int, int]] = {}  # Per message: when, on which track, of which execution.
    arrows = 0
    base: int | None = None
    reached: dict[str, int] = {}
    yield b'{"displayTimeUnit":"ns","traceEvents":[\n'
    comma = b""
    for event in events:
        records: list[dict[str, object]] = []
        pid = executions.get(event.execution)
        if pid is None:
            pid = executions[event.execution] = len(executions) + 1
            name = event.execution or "history"
            records.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
        track = tracks.get((event.execution, event.process))
        if track is None:
            track = tracks[event.execution, event.process] = len(tracks) + 1
            args = {"name": event.process}
            records.append({"ph": "M", "pid": pid, "tid": track, "name": "thread_name", "args": args})
        causes = [sent[event.execution, m] for m in event.receives if (event.execution, m) in sent]
        floor = max([last.get(track, -(2**63)), *(at for at, _, _ in causes)])
        if base is None:
            base = event.time  # Events without a time before it stand where it does.
        own = reached.get(event.execution, 0) if event.time is None or base is None else event.time - base
        at = max(own, floor + 1)
        last[track] = at
        reached[event.execution] = max(reached.get(event.execution, at), own)
        arguments: dict[str, object] = {"id": str(event.id)}
        if event.time is not None:
            arguments["time"] = event.time
        for key, value in event.attributes.items():
            while key in arguments:
                key = f"attribute.{key}"
            arguments[key] = value
        records.append(
            {
                "ph": "X",
                "pid": pid,
                "tid": track,
                "ts": at / 1_000,
                "dur": 0.001,
                "name": event.name or event.kind.value,
                "cat": event.kind.value,
                "args": arguments,
            }
        )
        for when, where, whose in causes:
            arrows += 1
            arrow = {"name": "message", "cat": "message", "id": arrows}
            records.append({"ph": "s", "pid": whose, "tid": where, "ts": when / 1_000, **arrow})
            records.append({"ph": "f", "bp": "e", "pid": pid, "tid": track, "ts": at / 1_000, **arrow})
        for message in event.sends:
            sent.setdefault((event.execution, message), (at, track, pid))
        for record in records:
            yield comma + _encode(record)
            comma = b",\n"
    yield b"\n]}\n"
