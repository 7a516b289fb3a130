"""A history directory, asked without Spark: the answers of `History`, out of a few blocks at a time.

1. Every answer equals that of `History` on the same events; only the order of messages in `Cut` is another (that of
   their sends). Explaining reads a few blocks, whatever the size of the history.
2. Nothing is written, and what is damaged is an `InputError` of one line, never a wrong answer by silence.
3. What was read is kept, up to `CACHE_BYTES_MAX`: the next question about the same blocks reads nothing.

Not safe for several threads at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from beforehand.diagram import Marks
from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId
from beforehand.formats.failing import is_failure
from beforehand.formats.opening import shown_path
from beforehand.history import Cut, Explanation, History
from beforehand.pipeline.directory import Directory, Manifest, open_directory
from beforehand.pipeline.schemas import DUPLICATE_SEND, EXECUTION, MESSAGE, OUTCOME, SEND_INDEX, SEND_PROCESS
from beforehand.pipeline.stored import cutting
from beforehand.pipeline.stored.around import Surroundings, around
from beforehand.pipeline.stored.arrays import reading
from beforehand.pipeline.stored.blocks import CutExecution, Place
from beforehand.pipeline.stored.cache import CACHE_BYTES_MAX, Cache
from beforehand.pipeline.stored.checking import found_violations, violating
from beforehand.pipeline.stored.conditions import Condition, condition_of
from beforehand.pipeline.stored.naming import resolve, some_executions
from beforehand.pipeline.stored.opening import read_cut_executions, verify_events
from beforehand.pipeline.stored.past import newest_first, past_count
from beforehand.pipeline.stored.relating import Point, Relation, chain_between, knows, reasons_of
from beforehand.pipeline.stored.scanning import Scanner
from beforehand.pipeline.stored.small import read_small
from beforehand.predicate import Predicate

__all__ = ["StoredHistory"]

Integers = npt.NDArray[np.int64]
Where = Callable[[Event], bool]
Named = EventId | str | Event
_VIOLATING_KEPT: Final = 1_000
_COUNTED_MAX: Final = 2_000_000  # Events that are counted for an error to be clear; more would take long.


class StoredHistory:
    """Events are named by `EventId`, by its text (`"cart:17"`, `"trace/cart:17"`) or by the `Event` itself."""

    def __init__(self, directory: Directory, manifest: Manifest, *, cache_bytes: int = CACHE_BYTES_MAX) -> None:
        """A directory that may still lack its manifest: `manifest` says what is in it."""
        self.directory = directory
        self.execution_word = "execution="  # How whoever asks names an execution: errors advise it.
        self.manifest = manifest
        self.cache = Cache(cache_bytes)
        empty = not manifest.events and not manifest.cut_executions
        self.scanner = Scanner(directory, self._verify, empty=empty)
        self._violating: dict[str, tuple[frozenset[EventId], frozenset[str]]] = {}  # At most `_VIOLATING_KEPT`.

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> StoredHistory:
        """A whole history directory. `InputError` says what is wrong with one that is not."""
        return cls(*open_directory(path))

    @cached_property
    def report(self) -> dict[str, Any]:
        """What `report.json` holds."""
        path = self.directory.report
        with reading(path):
            document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise InputError(f"{shown_path(path)} is not a report: analyze again")
        return document

    @property
    def executions(self) -> int:
        """How many executions there are."""
        return self.manifest.executions or len(self._cut_numbers)

    # Events.

    def find_id(self, event: Named) -> EventId:
        """The id of an event that is here."""
        if isinstance(event, Event):
            event = event.id
        return resolve(self, event) if isinstance(event, str) else self._present(event)

    def event(self, event: Named) -> Event:
        one = self.find_id(event)
        if one.execution in self._cut_numbers:
            of, place, _ = self._placed(one)
            return of.event(place)
        return self.history(one.execution).event(one)

    def has(self, event: EventId) -> bool:
        """Whether there is such an event."""
        if event.execution in self._cut_numbers:
            of = self.cut_execution(event.execution)
            member = of.members.get(event.process)
            return member is not None and of.place(member, event.index) is not None
        history = self.small_execution(event.execution)
        if history is None:
            return False
        try:
            history.event(event)
        except UnknownEventError:
            return False
        return True

    def find(self, where: Predicate | None, *, limit: int, execution: str | None = None) -> Iterator[Event]:
        """The events that are meant, newest first, at most `limit`; all are if `where` is None."""
        if limit < 1:
            return
        found = 0
        condition = Condition("TRUE") if where is None else condition_of(where.tree, self.scanner.values)
        for event in self.scanner.newest(_within(condition, execution), limit):
            if where is None or where(event):
                yield event
                found += 1
                if found == limit:
                    return

    def order(self, *, execution: str | None = None) -> Iterator[Event]:
        """The deterministic run: by causal time, size of past, process, index and execution."""
        return self.scanner.ordered(_within(Condition("TRUE"), execution))

    # Precedence.

    def explain(
        self,
        event: Named,
        *,
        last: int = 25,
        where: Where | None = None,
        process: str | None = None,
    ) -> Explanation:
        """The last events that could have led to this one; `where` and `process` choose among them."""
        one = self.find_id(event)
        if one.execution not in self._cut_numbers:
            return self._explain_small(one, last, where, process)
        of, place, _ = self._placed(one)
        stamp = of.stamp(place)
        chosen: list[Place] = []
        member = self._member(of, process)
        choose = None if where is None else _chooser(of, self.scanner, where)
        if last > 0:
            for at in newest_first(of, place, stamp, choose, member):
                chosen.append(at)
                if len(chosen) == last:
                    break
        shown = self._events(of, [*reversed(chosen), place])
        return Explanation(shown[-1], past_count(of, stamp) - 1, tuple(shown[:-1]))

    def stamp(self, event: Named) -> dict[str, int]:
        """The vector stamp: per process, the index of its last event known here. Without zeros."""
        one = self.find_id(event)
        if one.execution not in self._cut_numbers:
            return self.history(one.execution).stamp(one)
        of, place, _ = self._placed(one)
        stamp = of.stamp(place)
        return {process: int(stamp[at]) for at, process in enumerate(of.processes) if stamp[at]}

    def compare(self, a: Named, b: Named) -> str:
        """`before`, `after`, `equal` or `concurrent`: what a is to b."""
        first, second = self.find_id(a), self.find_id(b)
        if first == second:
            return "equal"
        if first.execution != second.execution:
            return "concurrent"  # Events of different executions are unrelated.
        if first.execution not in self._cut_numbers:
            return self.history(first.execution).compare(first, second)
        of, _, p = self._placed(first)
        _, _, q = self._placed(second)
        if knows(of, q, p):
            return "before"
        return "after" if knows(of, p, q) else "concurrent"

    def chain(self, a: Named, b: Named) -> list[EventId]:
        """If a → b, the sends and receives that lead from one to the other; empty if not, just a if they are one."""
        first, second = self.find_id(a), self.find_id(b)
        if self.compare(first, second) not in ("before", "equal"):
            return []
        if first.execution not in self._cut_numbers:
            return self.history(first.execution).chain(first, second)
        of, _, p = self._placed(first)
        _, _, q = self._placed(second)
        return [of.event_id(*point) for point in chain_between(of, p, q)]

    def reasons(self, chain: list[EventId]) -> list[str]:
        """A sentence per edge of a causal chain that `chain` gave."""
        if not chain or chain[0].execution not in self._cut_numbers:
            return self.history(chain[0].execution).reasons(chain) if chain else []
        of = self.cut_execution(chain[0].execution)
        return reasons_of(of, [self._placed(event)[2] for event in chain])

    def relate(self, a: Named, b: Named) -> Relation:
        """What a is to b, with a causal chain from the earlier to the later one."""
        first, second = self.find_id(a), self.find_id(b)
        relation = self.compare(first, second)
        chain = self.chain(second, first) if relation == "after" else self.chain(first, second)
        return Relation(relation, tuple(chain), tuple(self.reasons(chain)))

    def around(self, event: Named, count: int = 40) -> Surroundings:
        """Events near one, for a picture: about `count` of its past, some of its future and of what is concurrent."""
        return around(self, event, count)

    def marked(self, marks: Marks, execution: str, events: Iterable[Event]) -> Marks:
        """These marks, with those of what is wrong among the events: violations, and failures."""
        if execution not in self._violating:
            if len(self._violating) >= _VIOLATING_KEPT:
                self._violating.clear()
            self._violating[execution] = violating(found_violations(self.directory), execution)
        wrong, messages = self._violating[execution]
        failures = frozenset(event.id for event in events if is_failure(event.attributes))
        return replace(marks, violations=wrong, violating_messages=messages, failures=failures)

    # Cuts.

    def describe(self, cut: Mapping[str, int], *, execution: str | None = None) -> Cut:
        """This cut (process → index), described."""
        name = self.one_execution(execution)
        if name not in self._cut_numbers:
            return self.history(name).cut(cut)
        of = self.cut_execution(name)
        return cutting.describe(of, self.scanner, cutting.vector(of, cut))

    def cut_at(self, time: int, *, execution: str | None = None) -> Cut:
        """The largest consistent cut with nothing later than `time` (ns), each process going by its own clock."""
        name = self.one_execution(execution)
        if name not in self._cut_numbers:
            return self.history(name).cut_at(time)
        of = self.cut_execution(name)
        prefix = cutting.prefix_at(of, self.scanner, time)
        return cutting.describe(of, self.scanner, cutting.largest_consistent(of, prefix))

    def cut_after(self, *events: Named) -> Cut:
        """The smallest consistent cut that contains these events."""
        ids = [self.find_id(event) for event in events]
        executions = sorted({one.execution for one in ids}) or [self.one_execution(None)]
        if len(executions) > 1:
            raise InputError(f"{executions[0]!r} and {executions[1]!r} are different executions: a cut is of one")
        if executions[0] not in self._cut_numbers:
            return self.history(executions[0]).cut_after(*ids)
        of = self.cut_execution(executions[0])
        front = np.zeros(of.width, np.int64)
        for one in ids:
            front = np.maximum(front, of.stamp(self._placed(one)[1]))
        return cutting.describe(of, self.scanner, front)

    # Executions.

    def one_execution(self, execution: str | None) -> str:
        """The execution that is meant: the only one, if none is named. It exists."""
        if execution is not None:
            if execution not in self._cut_numbers and self.small_execution(execution) is None:
                raise InputError(f"there is no execution {execution!r} in {shown_path(self.directory.path)}")
            return execution
        if self.executions > 1:
            named = some_executions(self.scanner) if self.manifest.events <= _COUNTED_MAX else ""
            raise InputError(
                f"there are {self.executions:,} executions: say which one with {self.execution_word}{named}"
            )
        return self.only_execution

    @cached_property
    def only_execution(self) -> str:
        """The name of the one execution that there is; the first, if there are more."""
        if self._cut_numbers:
            return min(self._cut_numbers)
        sql = f'SELECT min("{EXECUTION}") FROM {self.scanner.events()}'  # noqa: S608
        ((name,),) = self.scanner.rows(sql)
        return str(name or "")

    def names(self) -> list[str]:
        """The names of all executions, sorted."""
        sql = f'SELECT DISTINCT "{EXECUTION}" FROM {self.scanner.events()} ORDER BY 1'  # noqa: S608
        return [name for (name,) in self.scanner.rows(sql)]

    def cut_execution(self, execution: str) -> CutExecution:
        """One that was cut into blocks."""
        if execution not in self._cut_numbers:
            raise InputError(f"execution {execution!r} was not cut into blocks")
        return self._cut_executions[execution]

    def is_cut(self, execution: str) -> bool:
        return execution in self._cut_numbers

    def small_execution(self, execution: str) -> History | None:
        """A small execution in memory; None if there is no such execution."""
        if not self.manifest.packs or execution in self._cut_numbers:
            return None

        def repeated() -> set[tuple[str, str, int]]:
            sql = (
                f'SELECT "{MESSAGE}", "{SEND_PROCESS}", "{SEND_INDEX}" FROM {self.scanner.messages()} '  # noqa: S608
                f'WHERE "{EXECUTION}" = ? AND "{OUTCOME}" = \'{DUPLICATE_SEND}\''
            )
            return set(self.scanner.rows(sql, (execution,)))

        def make() -> tuple[History | None, int]:
            history = read_small(self.directory, self.manifest.packs, execution, repeated)
            return history, 0 if history is None else history.stamps.nbytes + 1_000 * len(history)

        return self.cache.get(("small", execution), make)

    def history(self, execution: str) -> History:
        """A small execution in memory."""
        found = self.small_execution(execution)
        if found is None:
            raise InputError(f"there is no execution {execution!r} in {shown_path(self.directory.path)}")
        return found

    # Inside.

    @cached_property
    def _cut_numbers(self) -> dict[str, int]:
        try:
            return {str(entry["execution"]): int(str(entry["number"])) for entry in self.manifest.cut_executions}
        except (KeyError, TypeError, ValueError):
            shown = shown_path(self.directory.manifest)
            raise InputError(f"{shown} does not say which executions were cut: analyze again") from None

    @cached_property
    def _cut_executions(self) -> dict[str, CutExecution]:
        return read_cut_executions(self.directory, self.cache, self._cut_numbers)

    def _verify(self) -> None:
        verify_events(self.directory, self.manifest, self._cut_executions if self._cut_numbers else {})

    def _placed(self, event: EventId) -> tuple[CutExecution, Place, Point]:
        """Where an event of an execution that was cut lies; it exists."""
        of = self.cut_execution(event.execution)
        member = of.members[event.process]
        return of, of.sure_place(member, event.index), (member, event.index)

    def _present(self, event: EventId) -> EventId:
        if not self.has(event):
            raise UnknownEventError(str(event))
        return event

    def _member(self, of: CutExecution, process: str | None) -> int | None:
        if process is not None and process not in of.members:
            raise InputError(f"there is no process {process!r} in this history")
        return None if process is None else of.members[process]

    def _explain_small(self, one: EventId, last: int, where: Where | None, process: str | None) -> Explanation:
        history = self.history(one.execution)
        if process is None:
            return history.explain(one, last=last, where=where)
        if process not in history.processes:
            raise InputError(f"there is no process {process!r} in this history")
        return history.explain(
            one, last=last, where=lambda event: event.process == process and (where is None or where(event))
        )

    def _events(self, of: CutExecution, places: list[Place]) -> list[Event]:
        by_block: dict[int, list[int]] = {}
        for place in places:
            by_block.setdefault(place.block, []).append(place.row)
        found = {
            Place(block, row): event
            for block, rows in by_block.items()
            for row, event in zip(rows, of.events(block, rows), strict=True)
        }
        return [found[place] for place in places]


def _within(condition: Condition, execution: str | None) -> Condition:
    if execution is None:
        return condition
    return Condition(f'({condition.sql} AND "{EXECUTION}" = ?)', (*condition.values, execution), condition.exact)


def _chooser(of: CutExecution, scanner: Scanner, where: Where) -> Callable[[int, Integers], Integers]:
    """Which rows of a block are meant. Of a predicate, DuckDB finds the few rows that are worth a closer look."""
    condition = Condition("TRUE", (), exact=False)
    if isinstance(where, Predicate):
        condition = condition_of(where.tree, scanner.values)

    def chosen(block: int, rows: Integers) -> Integers:
        if condition.sql != "TRUE":
            found = scanner.matching(of.directory.block(of.number, block), condition)
            rows = rows[np.isin(rows, found, assume_unique=True)]
        if not condition.exact and rows.size:
            rows = rows[np.array([where(event) for event in of.events(block, rows.tolist())], np.bool_)]
        return rows

    return chosen
