"""ε and δ for a merger, from the messages of a history directory: what the log proves, and what each δ would cost.

ε is how far two clocks lie apart (G1). The log gives two bounds, both for offsets that stay as they are:

  needed      two clocks are that far apart for certain. A smaller ε breaks G1, and with it the order.
  sufficient  no two clocks can be further apart. It is recommended: what lies between the two costs time only, while
              too small an ε costs order. Not known where nothing bounds a clock from one side, or offsets changed.

δ is how long a message may take (G2), by the sender's clock when it is sent and by the receiver's when it arrives.
That is what a merger compares, so offsets count in, and are meant to. Figures are those of `history.tuning`: exact,
nothing is sampled. Messages are all receives with usable times at both ends, so a message counts once for each of its
receivers, as in the report. Inferred messages count too.

Memory does not grow with the history: DuckDB sorts, and spills what does not fit; the sorted columns lie in a
temporary folder, 56 bytes for each message, and are mapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.history.measures import TIME_MAX
from beforehand.history.offsets import Offsets, clock_bounds
from beforehand.history.tuning import (
    DELAY_END,
    EPSILON_END,
    Cost,
    Traffic,
    cost,
    delta_candidates,
    rounded_up,
    smallest_delta,
)
from beforehand.pipeline.schemas import (
    CAUSAL_TIME,
    EXECUTION,
    INDEX,
    INFERRED,
    OUTCOME,
    PROCESS,
    RECEIVE_PROCESS,
    RECEIVE_TIME,
    RECEIVED,
    SEND_INDEX,
    SEND_PROCESS,
    SEND_TIME,
    SENDS,
    UNRECEIVED,
)
from beforehand.pipeline.stored.arrays import numbers
from beforehand.pipeline.stored.history import StoredHistory
from beforehand.pipeline.stored.scanning import Scanner

__all__ = ["Epsilon", "Tuning", "tune"]

Integers = npt.NDArray[np.int64]

PAIRS_MAX: Final = 1_000_000
"""Pairs of processes whose least delays are held; with more, clocks are not bounded."""

TICK_MAX: Final = 10**15
LIMIT_NS: Final = 10**17
"""A δ or an ε that somebody gives is at most this: three years."""

_DELAY: Final = f'"{RECEIVE_TIME}" - "{SEND_TIME}"'
_TIMED: Final = " AND ".join(
    f'"{name}" BETWEEN {1 - TIME_MAX} AND {TIME_MAX - 1}' for name in (SEND_TIME, RECEIVE_TIME)
)
# Conditions are judged in any order, so a difference must fit even where a time is not usable.
_NEAR: Final = f'abs("{RECEIVE_TIME}"::HUGEINT - "{SEND_TIME}") < {DELAY_END}'
_USABLE: Final = f"\"{OUTCOME}\" = '{RECEIVED}' AND {_TIMED} AND {_NEAR}"


@dataclass(frozen=True, slots=True)
class Epsilon:
    """In nanoseconds; None: not known, and a note says why."""

    needed_ns: int | None
    sufficient_ns: int | None
    given_ns: int | None  # What the caller said.


@dataclass(frozen=True, slots=True)
class Tuning:
    messages: int  # Receives with usable times at both ends.
    refused_messages: int | None  # Of them, sent more than ε after they arrived; None if ε is not known.
    epsilon: Epsilon
    table: tuple[Cost, ...]  # By δ, ascending; the recommended one is among them.
    recommended_epsilon_ns: int | None  # In whole ticks, as the table assumes it.
    recommended_delta_ns: int | None
    tick_ns: int
    late: float  # The share of late messages that was allowed.
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Scope:
    """Which messages are meant."""

    scanner: Scanner
    execution: str | None

    @property
    def condition(self) -> str:
        return "TRUE" if self.execution is None else f'"{EXECUTION}" = ?'

    @property
    def values(self) -> list[object]:
        return [] if self.execution is None else [self.execution]

    def messages(self) -> str:
        return f"{self.scanner.messages()} WHERE {self.condition} AND {_USABLE}"


def tune(
    history: StoredHistory,
    *,
    late: float = 0.001,
    tick_ns: int = 1_000_000,
    epsilon_ns: int | None = None,
    deltas_ns: Sequence[int] = (),
    execution: str | None = None,
) -> Tuning:
    """What each δ would have cost, and the pair to use: the smallest δ with at most this share of messages `late`.

    `epsilon_ns` is used instead of what the log says; `deltas_ns` are looked at besides those chosen here.
    """
    if not 0 <= late <= 1 or not 1 <= tick_ns <= TICK_MAX:
        raise ValueError(f"late is a share from 0 to 1, a tick from 1 to {TICK_MAX} ns")
    if (
        min(deltas_ns, default=0) < 0
        or max(deltas_ns, default=0) > LIMIT_NS
        or not 0 <= (epsilon_ns or 0) <= LIMIT_NS
    ):
        raise ValueError(f"δ and ε are from 0 to {LIMIT_NS} ns")
    if execution is not None:
        history.one_execution(execution)
    scope = _Scope(history.scanner, execution)
    notes: list[str] = []
    messages = _count(history, scope, notes)
    needed, sufficient = _epsilon(scope, notes) if messages else (None, None)
    epsilon = _chosen(Epsilon(needed, sufficient, epsilon_ns), tick_ns, notes)
    refused, delta = None, None
    table: tuple[Cost, ...] = ()
    if messages:
        with tempfile.TemporaryDirectory(prefix="beforehand-tune-") as folder:
            ordered = _sorted_delays(scope, messages, Path(folder))
            delta = smallest_delta(ordered, late, tick_ns)
            wanted = {delta, *(rounded_up(given, tick_ns) for given in deltas_ns)}
            traffic = _traffic(scope, ordered, epsilon, Path(folder))
            found = delta_candidates(ordered, tick_ns, wanted)
            table = tuple(cost(traffic, ordered, one, epsilon) for one in found)
            if epsilon is not None:
                refused = _refused(ordered, epsilon)
                if refused:
                    notes.append(
                        f"{refused} messages were sent more than ε after they arrived, by the clocks: "
                        "a merger refuses them"
                    )
            del ordered, traffic  # Before what they map is removed.
    return Tuning(
        messages,
        refused,
        Epsilon(needed, sufficient, epsilon_ns),
        table,
        epsilon,
        delta,
        tick_ns,
        late,
        tuple(notes),
    )


def _count(history: StoredHistory, scope: _Scope, notes: list[str]) -> int:
    """The messages that are measured, and notes on those that are not."""
    sql = f"""
        SELECT count(*) FILTER ("{OUTCOME}" = '{RECEIVED}'), count(*) FILTER ({_USABLE}),
            count(*) FILTER ({_USABLE} AND "{INFERRED}"), count(*) FILTER ("{OUTCOME}" = '{UNRECEIVED}')
        FROM {scope.scanner.messages()} WHERE {scope.condition}"""  # noqa: S608
    ((received, usable, inferred, unreceived),) = scope.scanner.rows(sql, scope.values)
    if usable:
        notes.append("delays are on raw clocks: the offsets between clocks count in, as they do for a merger")
    else:
        notes.append("no message has usable times at both ends: nothing can be recommended")
    if received > usable:
        notes.append(f"{received - usable} receives lack a usable time at one end, and are not counted")
    if unreceived:
        notes.append(f"{unreceived} messages were never received: they count neither as late nor as in time")
    if inferred:
        notes.append(
            f"{inferred} of {usable} messages were inferred: they lie between events that were logged, which may be "
            "before the send and after the arrival"
        )
    if scope.execution is None and history.executions > 1:
        notes.append(
            f"the messages of {history.executions} executions are taken together, and a process of one name has one "
            "clock in all of them; --execution takes one"
        )
    return int(usable)


def _epsilon(scope: _Scope, notes: list[str]) -> tuple[int | None, int | None]:
    """ε from below and from above."""
    ends = f'"{SEND_PROCESS}", "{RECEIVE_PROCESS}"'
    sql = f"""
        SELECT {ends}, count(*), min({_DELAY}) FROM {scope.messages()} GROUP BY {ends} ORDER BY {ends}
        LIMIT {PAIRS_MAX + 1}"""  # noqa: S608
    pairs = list(scope.scanner.rows(sql, scope.values))
    if len(pairs) > PAIRS_MAX:
        notes.append(f"more than {PAIRS_MAX} pairs of processes exchanged messages: clocks were not bounded")
        return None, None
    # A message that arrives at a reading before that of its send: at that instant the two clocks are at least so far
    # apart, even if offsets change. Not so for one process with itself, whose clock was set back.
    seen = max((-least for sender, receiver, _, least in pairs if sender != receiver), default=0)
    processes = sorted({name for pair in pairs for name in pair[:2]})
    position = {process: at for at, process in enumerate(processes)}
    offsets = clock_bounds(
        processes,
        np.array([position[pair[0]] for pair in pairs], np.int32),
        np.array([position[pair[1]] for pair in pairs], np.int32),
        np.array([pair[3] for pair in pairs], np.int64),
        np.array([pair[2] for pair in pairs], np.int64),
    )
    notes += offsets.notes
    if offsets.epsilon_max_ns is None and not offsets.notes:
        notes.append(_unbounded(processes, offsets))
    needed = max(seen, 0, offsets.epsilon_min_ns or 0)
    return needed, offsets.epsilon_max_ns


def _unbounded(processes: Sequence[str], offsets: Offsets) -> str:
    """Which clock nothing bounds: messages go one way only, or not at all."""
    p, q = np.unravel_index(int(np.argmax(np.isinf(offsets.distance))), offsets.distance.shape)
    return (
        f"no chain of messages leads from {processes[int(p)]} to {processes[int(q)]}, so nothing bounds how far the "
        f"clock of {processes[int(q)]} can be ahead"
    )


def _chosen(epsilon: Epsilon, tick: int, notes: list[str]) -> int | None:
    """The ε to use, in whole ticks."""
    given, needed, sufficient = epsilon.given_ns, epsilon.needed_ns, epsilon.sufficient_ns
    if given is not None:
        if needed is not None and given < needed:
            notes.append(f"the ε given, {given} ns, is too small: two clocks are {needed} ns apart")
        return rounded_up(given, tick)
    if sufficient is not None and rounded_up(sufficient, tick) < EPSILON_END:
        return rounded_up(sufficient, tick)
    if sufficient is not None:
        notes.append("clocks can be 18 years apart or more: one of them is not set")
    if needed is not None:
        notes.append(
            "no ε surely suffices by this log alone: say with --epsilon how far apart your clocks are kept; "
            "without it waits and buffers are not known"
        )
    return None


def _refused(ordered: Integers, epsilon: int) -> int:
    return int(np.searchsorted(ordered, -epsilon, side="left"))


def _sorted_delays(scope: _Scope, count: int, folder: Path) -> Integers:
    sql = f"SELECT {_DELAY} AS delay FROM {scope.messages()} ORDER BY delay"  # noqa: S608
    (ordered,) = _mapped(scope.scanner, sql, scope.values, folder, count, [np.int64])
    return ordered


def _traffic(scope: _Scope, ordered: Integers, epsilon: int | None, folder: Path) -> Traffic | None:
    """The messages that are not refused, sorted twice; None if ε is not known."""
    if epsilon is None:
        return None
    sql = f"""
        WITH message AS (SELECT * FROM {scope.messages()} AND {_DELAY} >= {-epsilon:d}),
            sending AS (SELECT * FROM {scope.scanner.events()} WHERE len("{SENDS}") > 0),
            receiver AS (SELECT "{PROCESS}", row_number() OVER (ORDER BY "{PROCESS}") - 1 AS number
                FROM (SELECT DISTINCT "{RECEIVE_PROCESS}" AS "{PROCESS}" FROM message))
        SELECT message."{RECEIVE_TIME}" AS arrival, message."{RECEIVE_TIME}" - message."{SEND_TIME}" AS delay,
            least(coalesce(sending."{CAUSAL_TIME}", message."{SEND_TIME}"), message."{SEND_TIME}" + {epsilon:d})
                AS ready,
            receiver.number::INTEGER AS receiver
        FROM message JOIN receiver ON receiver."{PROCESS}" = message."{RECEIVE_PROCESS}"
            LEFT JOIN sending ON sending."{EXECUTION}" = message."{EXECUTION}"
                AND sending."{PROCESS}" = message."{SEND_PROCESS}" AND sending."{INDEX}" = message."{SEND_INDEX}"
        """  # noqa: S608
    count = ordered.size - _refused(ordered, epsilon)
    with scope.scanner.table(sql, scope.values) as table:
        arrivals = f"SELECT arrival, ready, delay, receiver FROM {table} ORDER BY arrival"  # noqa: S608
        departures = f"SELECT ready, delay, receiver FROM {table} ORDER BY ready"  # noqa: S608
        wide, narrow = np.int64, np.int32
        a = _mapped(scope.scanner, arrivals, (), folder, count, [wide, wide, wide, narrow])
        d = _mapped(scope.scanner, departures, (), folder, count, [wide, wide, narrow])
        ((last,),) = scope.scanner.rows(f"SELECT max(receiver) FROM {table}")  # noqa: S608
    return Traffic(a[0], a[1], a[2], a[3], d[0], d[1], d[2], receivers=0 if last is None else int(last) + 1)


def _mapped(
    scanner: Scanner,
    sql: str,
    values: Sequence[object],
    folder: Path,
    count: int,
    kinds: Sequence[type[np.integer[Any]]],
) -> list[npt.NDArray[Any]]:
    """The columns of a query with so many rows, in files of the folder."""
    if not count:
        return [np.empty(0, kind) for kind in kinds]
    made = len(list(folder.iterdir()))
    columns = [np.memmap(folder / f"{made}-{at}", kind, "w+", shape=count) for at, kind in enumerate(kinds)]
    row = 0
    for batch in scanner.batches(sql, values):
        if row + batch.num_rows > count:
            raise InputError("the tables do not fit each other, or changed while they were read: analyze again")
        for column, array in zip(columns, batch.columns, strict=True):
            column[row : row + batch.num_rows] = numbers(array)
        row += batch.num_rows
    if row < count:
        raise InputError("the tables changed while they were read: try again")
    return [np.asarray(column) for column in columns]
