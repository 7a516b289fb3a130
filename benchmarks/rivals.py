"""Other ways to stamp events and to find a causal past: graph libraries, and recursive queries of DuckDB.

All of them get the same: numbered events, with finished edges from each event to the next of its process and from
each send to its receives. None has stamps of its own, so stamping is a loop over the library's own topological order
and predecessors, the stamps being rows of one array. A library that is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.events import Event

__all__ = ["RIVALS", "Graph", "Rival", "graph_of", "installed", "last_of", "read_graph"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Events by number; `edges` has a row of two events for each step and each message."""

    process: Integers
    index: Integers
    time: Integers
    edges: Integers

    def __len__(self) -> int:
        return int(self.process.size)

    @property
    def processes(self) -> int:
        return int(self.process.max()) + 1


class Rival(Protocol):
    """Loaded with a graph."""

    def past(self, event: int) -> Sequence[int]: ...

    def stamps(self) -> npt.NDArray[np.int32]: ...


class _Networkx:
    def __init__(self, graph: Graph) -> None:
        import networkx

        self._library, self._data = networkx, graph
        self._graph = networkx.DiGraph()
        self._graph.add_nodes_from(range(len(graph)))
        self._graph.add_edges_from(map(tuple, graph.edges.tolist()))

    def past(self, event: int) -> Sequence[int]:
        return list(self._library.ancestors(self._graph, event))

    def stamps(self) -> npt.NDArray[np.int32]:
        return _stamped(self._data, self._library.topological_sort(self._graph), self._graph.predecessors)


class _Rustworkx:
    def __init__(self, graph: Graph) -> None:
        import rustworkx

        self._library, self._data = rustworkx, graph
        self._graph = rustworkx.PyDiGraph(
            multigraph=True, node_count_hint=len(graph), edge_count_hint=len(graph.edges)
        )
        self._graph.add_nodes_from(range(len(graph)))
        self._graph.add_edges_from_no_data(list(map(tuple, graph.edges.tolist())))

    def past(self, event: int) -> Sequence[int]:
        return list(self._library.ancestors(self._graph, event))

    def stamps(self) -> npt.NDArray[np.int32]:
        return _stamped(self._data, self._library.topological_sort(self._graph), self._graph.predecessor_indices)


class _Igraph:
    def __init__(self, graph: Graph) -> None:
        import igraph

        self._data = graph
        self._graph = igraph.Graph(n=len(graph), edges=graph.edges, directed=True)

    def past(self, event: int) -> Sequence[int]:
        return [other for other in self._graph.subcomponent(event, mode="in") if other != event]

    def stamps(self) -> npt.NDArray[np.int32]:
        return _stamped(self._data, self._graph.topological_sorting(), self._graph.predecessors)


class _DuckDb:
    """Both as recursive queries with a key: per process, or per event and process, the last event that is known."""

    def __init__(self, graph: Graph) -> None:
        self._data = graph
        self._connection = duckdb.connect()
        number = pa.array(np.arange(len(graph)))
        events = pa.table({"id": number, "p": pa.array(graph.process), "i": pa.array(graph.index)})
        edges = pa.table({"a": pa.array(graph.edges[:, 0]), "b": pa.array(graph.edges[:, 1])})
        self._connection.register("given", events)
        self._connection.register("given_edges", edges)
        self._connection.execute("""
            CREATE TABLE event AS SELECT * FROM given;
            CREATE TABLE step AS SELECT * FROM given_edges;
            CREATE TABLE message AS
                SELECT s.p AS p, s.i AS i, r.p AS q, r.i AS j
                FROM given_edges JOIN event AS s ON s.id = a JOIN event AS r ON r.id = b WHERE s.p <> r.p;
        """)

    def past(self, event: int) -> Sequence[int]:
        rows = self._connection.execute(
            """
            WITH RECURSIVE known(p, i) USING KEY (p) AS (
                SELECT ?::BIGINT, ?::BIGINT
                UNION
                SELECT message.p, max(message.i)
                FROM known JOIN message ON message.q = known.p AND message.j <= known.i
                LEFT JOIN recurring.known AS had ON had.p = message.p
                WHERE message.i > coalesce(had.i, 0)
                GROUP BY message.p
            )
            SELECT event.id FROM event JOIN known ON event.p = known.p AND event.i <= known.i WHERE event.id <> ?
            """,
            [int(self._data.process[event]), int(self._data.index[event]), event],
        ).fetchnumpy()
        found: list[int] = rows["id"].tolist()
        return found

    def stamps(self) -> npt.NDArray[np.int32]:
        rows = self._connection.execute("""
            WITH RECURSIVE stamp(id, p, i) USING KEY (id, p) AS (
                SELECT id, p, i FROM event
                UNION
                SELECT step.b, stamp.p, max(stamp.i)
                FROM stamp JOIN step ON step.a = stamp.id
                LEFT JOIN recurring.stamp AS had ON had.id = step.b AND had.p = stamp.p
                WHERE stamp.i > coalesce(had.i, 0)
                GROUP BY step.b, stamp.p
            )
            SELECT id, p, i FROM stamp
        """).fetchnumpy()
        stamps = np.zeros((len(self._data), self._data.processes), np.int32)
        stamps[rows["id"], rows["p"]] = rows["i"]
        return stamps


RIVALS: Final[dict[str, Callable[[Graph], Rival]]] = {
    "networkx": _Networkx,
    "rustworkx": _Rustworkx,
    "igraph": _Igraph,
    "DuckDB": _DuckDb,
}


def installed(name: str) -> bool:
    return find_spec(name.lower()) is not None


def last_of(graph: Graph, past: Sequence[int], count: int = 25) -> list[int]:
    """The last ones by time, newest first; of equal times, by number."""
    chosen = np.asarray(past, np.int64)
    found: list[int] = chosen[np.lexsort((chosen, graph.time[chosen]))[::-1][:count]].tolist()
    return found


def graph_of(events: Sequence[Event]) -> Graph:
    """The events must be complete and in an order in which each send is before its receives."""
    names = {name: at for at, name in enumerate(sorted({event.process for event in events}))}
    last: dict[str, int] = {}
    sent: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    for number, event in enumerate(events):
        if event.process in last:
            edges.append((last[event.process], number))
        last[event.process] = number
        edges += [(sent[message], number) for message in event.receives]
        sent.update(dict.fromkeys(event.sends, number))
    return Graph(
        process=np.array([names[event.process] for event in events], np.int64),
        index=np.array([event.index for event in events], np.int64),
        time=np.array([event.time or 0 for event in events], np.int64),
        edges=np.array(edges, np.int64).reshape(-1, 2),
    )


def read_graph(source: Path) -> tuple[Graph, list[str]]:
    """Of native events in Parquet, with the names of the processes by number."""
    table = pq.read_table(source, columns=["process", "index", "sends", "receives", "time"])
    names = table["process"].combine_chunks().dictionary_encode()
    numbers, index = names.indices.to_numpy().astype(np.int64), table["index"].to_numpy()
    order = np.lexsort((index, numbers))
    same = numbers[order][1:] == numbers[order][:-1]
    steps = np.stack([order[:-1][same], order[1:][same]], axis=1)
    (senders, sent), (receivers, received) = (_ends(table[name].combine_chunks()) for name in ("sends", "receives"))
    by_message = dict(zip(sent.tolist(), senders.tolist(), strict=True))
    messages = [(by_message[m], r) for r, m in zip(receivers.tolist(), received.tolist(), strict=True)]
    edges = np.concatenate([steps, np.array(messages, np.int64).reshape(-1, 2)])
    graph = Graph(process=numbers, index=index, time=table["time"].to_numpy(), edges=edges)
    return graph, names.dictionary.to_pylist()


def _ends(column: pa.Array) -> tuple[npt.NDArray[Any], pa.Array]:
    lengths = pa.compute.list_value_length(column).to_numpy()
    return np.repeat(np.arange(len(column)), lengths), column.flatten()


def _stamped(
    graph: Graph, order: Iterable[int], predecessors: Callable[[int], Iterable[int]]
) -> npt.NDArray[np.int32]:
    stamps = np.zeros((len(graph), graph.processes), np.int32)
    process, index = graph.process.tolist(), graph.index.tolist()
    for event in order:
        stamp = stamps[event]
        for before in predecessors(event):
            np.maximum(stamp, stamps[before], out=stamp)
        stamp[process[event]] = index[event]
    return stamps
