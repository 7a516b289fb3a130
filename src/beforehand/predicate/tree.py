"""An expression as a tree of frozen records, made to be evaluated, written as text, or translated.

An invalid tree cannot exist: each node checks itself (`PredicateError`, without a position; the parser adds it).
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, get_args

from beforehand.errors import PredicateError
from beforehand.events import INDEX_MAX, Event, Kind
from beforehand.predicate.patterns import Pattern, compile_pattern, cut, is_found

__all__ = [
    "DEPTH_MAX",
    "FIELDS_SHOWN",
    "KEYWORDS",
    "NUMBER",
    "WORD",
    "And",
    "Compare",
    "Field",
    "FieldName",
    "Node",
    "Not",
    "Operator",
    "Or",
]

DEPTH_MAX: Final = 100

FieldName: TypeAlias = Literal["name", "process", "execution", "kind", "time", "attributes"]
Operator: TypeAlias = Literal["=", "!=", "~", "<", ">"]

WORD: Final = re.compile(r"[\w\-.:/+@#]+")
NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
KEYWORDS: Final = frozenset({"and", "or", "not"})
FIELDS_SHOWN: Final = "name, process, execution, kind, time, attributes.KEY"


@dataclass(frozen=True, slots=True)
class Field:
    """What a comparison looks at; `key` is the attribute's name, None for the other fields."""

    name: FieldName
    key: str | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(FieldName):
            near = get_close_matches(self.name, get_args(FieldName), n=1)
            meant = near[0] if near else f"attributes.{self.name}"
            raise PredicateError(f"no field {self.name!r}: did you mean {meant}? Fields are {FIELDS_SHOWN}")
        if self.name == "attributes" and not self.key:
            raise PredicateError("attributes needs a key, like attributes.resource")
        if self.name != "attributes" and self.key is not None:
            raise PredicateError(f"{self.name} has no key: only attributes have, like attributes.resource")
        _refuse_surrogates(self.key or "")

    def __str__(self) -> str:
        if self.key is None:
            return self.name
        return f"{self.name}.{self.key if WORD.fullmatch(self.key) else _quoted(self.key)}"

    def of(self, event: Event) -> str | int | None:
        """The event's value: an integer only for `time`, None if it has none."""
        match self.name:
            case "attributes":
                return event.attributes.get(self.key or "")
            case "name":
                return event.name
            case "process":
                return event.process
            case "execution":
                return event.execution
            case "kind":
                return event.kind.value
            case "time":
                return event.time


@dataclass(frozen=True, slots=True)
class Compare:
    """One comparison. An invalid one cannot exist.

    The type of `value` says how it is compared: int for `time` (nanoseconds), float for numbers by `<` and
    `>`, str for text (and for patterns).
    """

    field: Field
    operator: Operator
    value: str | int | float
    pattern: Pattern | None = dataclasses.field(init=False, compare=False, repr=False)
    depth: int = dataclasses.field(default=1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.operator not in get_args(Operator):
            raise PredicateError(f"no operator {self.operator!r}: operators are {_OPERATORS_SHOWN}")
        _check_value(self.field, self.operator, self.value)
        pattern = compile_pattern(self.value) if self.operator == "~" and isinstance(self.value, str) else None
        object.__setattr__(self, "pattern", pattern)

    def holds(self, event: Event) -> bool:
        has = self.field.of(event)
        if has is None:
            return self.operator == "!="
        match self.operator:
            case "=":
                return has == self.value
            case "!=":
                return has != self.value
            case "~":
                assert self.pattern is not None
                return is_found(self.pattern, str(has))
            case "<" | ">":
                return self._is_beyond(has)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return f"{self.field} {self.operator} {_written(self.value, self.operator)}"
        return f"{self.field} {self.operator} {self.value!r}"

    def _is_beyond(self, has: str | int) -> bool:
        if isinstance(self.value, str):
            text = str(has)
            return text < self.value if self.operator == "<" else text > self.value
        number = has if isinstance(has, int) else _number(has)
        if number is None:
            return False
        return number < self.value if self.operator == "<" else number > self.value


@dataclass(frozen=True, slots=True)
class Not:
    term: Node
    depth: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_above(self.term))

    def holds(self, event: Event) -> bool:
        return not self.term.holds(event)

    def __str__(self) -> str:
        return f"not {_within(self.term, And, Or)}"


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more terms, tried in order."""

    terms: tuple[Node, ...]
    depth: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_above(*_several(self.terms)))

    def holds(self, event: Event) -> bool:
        for term in self.terms:  # noqa: SIM110 (a generator would double the depth of the stack)
            if not term.holds(event):
                return False
        return True

    def __str__(self) -> str:
        return " and ".join([_within(term, And, Or) for term in self.terms])


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more terms, tried in order."""

    terms: tuple[Node, ...]
    depth: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_above(*_several(self.terms)))

    def holds(self, event: Event) -> bool:
        for term in self.terms:  # noqa: SIM110 (as in And)
            if term.holds(event):
                return True
        return False

    def __str__(self) -> str:
        return " or ".join([_within(term, Or) for term in self.terms])


Node: TypeAlias = Compare | And | Or | Not


def _several(terms: tuple[Node, ...]) -> tuple[Node, ...]:
    if len(terms) < 2:
        raise PredicateError("and, or need two terms at least")
    return terms


def _depth_above(*terms: Node) -> int:
    depth = 1 + max([term.depth for term in terms])
    if depth > DEPTH_MAX:
        raise PredicateError(f"nested deeper than {DEPTH_MAX}: simplify the expression")
    return depth


def _within(term: Node, *bracketed: type) -> str:
    return f"({term})" if isinstance(term, bracketed) else str(term)


# Values.

_KINDS: Final = tuple(kind.value for kind in Kind)
_OPERATORS_SHOWN: Final = " ".join(get_args(Operator))


def _check_value(field: Field, operator: Operator, value: str | int | float) -> None:
    if field.name == "time":
        if operator == "~":
            raise PredicateError("time is not text, ~ cannot search it: use < and >")
        if type(value) is not int or abs(value) > INDEX_MAX:
            raise PredicateError(f"time {value!r} is not a 64-bit integer of nanoseconds")
    elif field.name == "kind" and operator not in ("=", "!="):
        raise PredicateError(f"kind can only be compared with = and !=, not with {operator}")
    elif isinstance(value, str):
        _refuse_surrogates(value)
        if field.name == "kind" and value not in _KINDS:
            raise PredicateError(f"no kind {cut(value)}: kinds are {', '.join(_KINDS)}")
    elif operator not in ("<", ">") or type(value) is not float:
        raise PredicateError(f"{field} {operator} needs text, not {value!r}: quote it")
    elif not math.isfinite(value):
        raise PredicateError("the number is beyond what a 64-bit float holds")


def _written(text: str, operator: Operator) -> str:
    """Text as a value that the parser takes for the same text: quoted only where it must be."""
    is_bare = WORD.fullmatch(text) and text.lower() not in KEYWORDS
    means_number = operator in ("<", ">") and NUMBER.fullmatch(text)
    return text if is_bare and not means_number else _quoted(text)


def _number(text: str) -> float | None:
    # Not float() alone: it takes "nan", "1_000" and blanks, which no other reader of numbers does.
    if NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _refuse_surrogates(text: str) -> None:
    # They cannot be written as UTF-8, so no event has them and no database takes them.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PredicateError(f"{cut(text)} holds a lone surrogate, which no text has: remove it")
