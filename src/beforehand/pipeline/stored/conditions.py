"""A predicate as a condition in SQL that every event that is meant fulfils, and hardly any other.

What DuckDB would judge differently (regular expressions, texts that are numbers) is judged here, once for each value
that there is, if these are not too many. Otherwise it is left open: true where the predicate asks for it, false under
`not`; who uses the condition judges its rows by the predicate itself. Values are bound, never pasted. A field that an
event lacks is false for every comparison but `!=`, as in the predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from beforehand.errors import PredicateError
from beforehand.events import Event
from beforehand.pipeline.schemas import ATTRIBUTES, EXECUTION, KIND, NAME, PROCESS, TIME
from beforehand.predicate import And, Compare, Field, Node, Not, Or

__all__ = ["Condition", "condition_of"]

_COLUMNS = {"name": NAME, "process": PROCESS, "execution": EXECUTION, "kind": KIND, "time": TIME}

Values = Callable[[str, tuple[object, ...]], list[str] | None]
"""From a field in SQL and its bound values to all values that it has; None if they are too many."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL with a question mark per value."""

    sql: str
    values: tuple[object, ...] = ()
    exact: bool = True  # False: some rows may not be meant.


def condition_of(node: Node, values: Values | None = None) -> Condition:
    """What all events fulfil for which the predicate holds."""
    return _bound(node, values, upper=True)


def _bound(node: Node, values: Values | None, *, upper: bool) -> Condition:
    """`upper`: true wherever the predicate is; otherwise: true only where the predicate is."""
    match node:
        case Not():
            inner = _bound(node.term, values, upper=not upper)
            return Condition(f"(NOT {inner.sql})", inner.values, inner.exact)
        case And():
            return _joined(" AND ", node.terms, values, upper=upper)
        case Or():
            return _joined(" OR ", node.terms, values, upper=upper)
        case Compare():
            return _compared(node, values, upper=upper)
        case _:
            assert_never(node)


def _joined(word: str, terms: tuple[Node, ...], values: Values | None, *, upper: bool) -> Condition:
    parts = [_bound(term, values, upper=upper) for term in terms]
    return Condition(
        f"({word.join(part.sql for part in parts)})",
        tuple(value for part in parts for value in part.values),
        all(part.exact for part in parts),
    )


def _compared(node: Compare, values: Values | None, *, upper: bool) -> Condition:
    key: tuple[object, ...] = ()
    if node.field.name == "attributes":
        field, key = f'"{ATTRIBUTES}"[?]', (node.field.key,)
    else:
        field = f'"{_COLUMNS[node.field.name]}"'
    if node.operator == "~" or isinstance(node.value, float):
        return _judged(node, field, key, values, upper=upper)
    if node.operator == "!=":
        return Condition(f"({field} IS DISTINCT FROM ?)", (*key, node.value))
    return Condition(f"COALESCE({field} {node.operator} ?, FALSE)", (*key, node.value))


def _judged(node: Compare, field: str, key: tuple[object, ...], values: Values | None, *, upper: bool) -> Condition:
    """A comparison that only Python can make."""
    there = None if values is None else values(field, key)
    if there is None:
        return Condition(f"({field} IS NOT NULL)", key, exact=False) if upper else Condition("FALSE", (), exact=False)
    meant, exact = [], True
    for value in there:
        try:
            if node.holds(_with(node.field, value)):
                meant.append(value)
        except PredicateError:
            # Beyond a limit. It matters only if the rest of the predicate comes to it: leave it open.
            exact = False
            if upper:
                meant.append(value)
    sql = f"COALESCE({field} IN (SELECT unnest(?::VARCHAR[])), FALSE)"
    return Condition(sql, (*key, meant), exact)


def _with(field: Field, value: str) -> Event:
    """An event of which just this is known."""
    match field.name:
        case "attributes":
            return Event(process="p", index=1, attributes={field.key or "": value})
        case "process":
            return Event(process=value, index=1)
        case "execution":
            return Event(process="p", index=1, execution=value)
        case _:
            return Event(process="p", index=1, name=value)
