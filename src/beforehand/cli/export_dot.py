"""A graph for Graphviz: a column per process, an edge per step of a process and per message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beforehand.diagram.text import visible
from beforehand.events import Event

__all__ = ["dot_graph"]


def dot_graph(events: Iterable[Event]) -> Iterator[bytes]:
    """The document in pieces. The events come in the deterministic order, so a send before its receives."""
    yield b"digraph history {\n  rankdir = LR;\n  node [shape = box, fontsize = 10];\n"
    last: dict[tuple[str, str], int] = {}
    sent: dict[tuple[str, str], int] = {}
    for number, event in enumerate(events):
        lane = (event.execution, event.process)
        lines = [f"  e{number} [label = {_quoted(str(event.id), event.name)}, group = {_quoted(str(lane))}];"]
        if lane in last:
            lines.append(f"  e{last[lane]} -> e{number} [style = bold, weight = 10];")
        last[lane] = number
        for message in event.receives:
            source = sent.get((event.execution, message))
            if source is not None:
                lines.append(f"  e{source} -> e{number} [label = {_quoted(message)}, fontsize = 8];")
        for message in event.sends:
            sent.setdefault((event.execution, message), number)
        yield ("\n".join(lines) + "\n").encode()
    yield b"}\n"


def _quoted(*lines: str) -> str:
    r"""Text in quotes, its lines broken with \n."""
    escaped = [visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines if line]
    return '"' + "\\n".join(escaped) + '"'
