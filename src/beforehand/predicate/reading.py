"""From the text of an expression to its tree, with an explicit stack instead of recursion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, cast

from beforehand.errors import PredicateError
from beforehand.events import parse_time
from beforehand.predicate.patterns import PATTERN_COST_MAX, cost_of, cut
from beforehand.predicate.tree import (
    DEPTH_MAX,
    FIELDS_SHOWN,
    KEYWORDS,
    NUMBER,
    And,
    Compare,
    Field,
    FieldName,
    Node,
    Not,
    Operator,
    Or,
)

__all__ = ["EXPRESSION_LENGTH_MAX", "PATTERNS_MAX", "parse"]

EXPRESSION_LENGTH_MAX: Final = 10_000
PATTERNS_MAX: Final = 50  # With the time limit of each, what one event may cost.


def parse(text: str) -> Node:
    """The tree of an expression. Raises `PredicateError` with the position of what is wrong."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise PredicateError(
            f"the expression has {len(text)} characters, the limit is {EXPRESSION_LENGTH_MAX}: shorten it"
        )
    return _Parser(list(_tokens(text))).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # A group of `_TOKEN`, or "and", "or", "not", "end".
    text: str  # As written.
    position: int


@dataclass(slots=True)
class _Level:
    """What an open bracket (or the whole) holds so far: `a and b or c and not`, say."""

    position: int
    negations: list[int] = field(default_factory=list)  # Where each `not` before the next factor stands.
    factors: list[Node] = field(default_factory=list)  # Of the term being read, between `and`.
    terms: list[Node] = field(default_factory=list)  # Complete, between `or`.

    def add(self, factor: Node) -> None:
        while self.negations:
            with _placed(self.negations.pop()):
                factor = Not(factor)
        self.factors.append(factor)

    def end_term(self) -> None:
        with _placed(self.position):
            self.terms.append(self.factors[0] if len(self.factors) == 1 else And(tuple(self.factors)))
        self.factors = []

    def end(self) -> Node:
        self.end_term()
        with _placed(self.position):
            return self.terms[0] if len(self.terms) == 1 else Or(tuple(self.terms))


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0  # The token to take next; the last one is "end" and is taken once.
        self._levels = [_Level(0)]
        self._patterns = 0
        self._cost = 0  # Of all patterns.

    def parse(self) -> Node:
        while True:
            self._factor()
            token = self._take()
            while token.kind == "close":
                self._close(token)
                token = self._take()
            if token.kind == "or":
                self._levels[-1].end_term()
            elif token.kind == "end":
                return self._end()
            elif token.kind != "and":
                raise _unexpected(token, "and, or, ) or the end")

    def _factor(self) -> None:
        """Take what begins a factor, any number of `not` and `(`, and the comparison after them."""
        while True:
            token = self._take()
            if token.kind == "not":
                self._levels[-1].negations.append(token.position)
            elif token.kind == "open":
                self._levels.append(_Level(token.position))
            else:
                break
            # Quadratic in the depth, which is why the depth is checked at once.
            if sum(1 + len(level.negations) for level in self._levels) > DEPTH_MAX:
                raise PredicateError(
                    f"nested deeper than {DEPTH_MAX}: simplify the expression", position=token.position
                )
        self._levels[-1].add(self._comparison(token))

    def _close(self, token: _Token) -> None:
        if len(self._levels) == 1:
            raise PredicateError("nothing is open that ) could close: remove it", position=token.position)
        inner = self._levels.pop()
        self._levels[-1].add(inner.end())

    def _end(self) -> Node:
        if len(self._levels) > 1:
            raise PredicateError("( is never closed: add )", position=self._levels[-1].position)
        return self._levels[0].end()

    def _comparison(self, token: _Token) -> Compare:
        compared = self._field(token)
        sign = self._take()
        if sign.kind != "operator":
            raise _unexpected(sign, "one of = != ~ < > after the field")
        operator = cast(Operator, sign.text)
        value = self._take()
        if value.kind in KEYWORDS:
            raise PredicateError(f"the value {value.text} is a keyword: quote it", position=value.position)
        if value.kind not in ("word", "quoted"):
            raise _unexpected(value, "a value")
        if operator == "~":
            self._patterns += 1
            if self._patterns > PATTERNS_MAX:
                raise PredicateError(
                    f"more than {PATTERNS_MAX} patterns: join some with | inside", position=sign.position
                )
        with _placed(value.position):
            made = Compare(compared, operator, _literal(compared, operator, value))
            self._cost += 0 if made.pattern is None else cost_of(made.pattern.pattern)
            if self._cost > PATTERN_COST_MAX:
                raise PredicateError("the repeats in the patterns multiply too far, together: use smaller counts")
            return made

    def _field(self, token: _Token) -> Field:
        if token.kind != "word":
            raise _unexpected(token, f"a field ({FIELDS_SHOWN}), not or (")
        name, dot, key = token.text.partition(".")
        if dot and not key:
            quoted = self._take()
            if quoted.kind != "quoted" or quoted.position != token.position + len(token.text):
                raise _unexpected(quoted, "a key directly after the dot")
            key = _unquoted(quoted.text)
        with _placed(token.position):
            return Field(cast(FieldName, name), key if dot else None)

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token


_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+) | (?P<open>\() | (?P<close>\)) | (?P<operator>!=|[=~<>])
      | (?P<word>[\w\-.:/+@\#]+) | (?P<quoted>"(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+')""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"""\\([\\"'])""")
_INTEGER: Final = re.compile(r"-?\d{1,19}", re.ASCII)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            character = text[position]
            problem = (
                f"the text that starts with {character} never ends: close the quote"
                if character in "\"'"
                else f"unexpected {character!r}: quote the text it is in"
            )
            raise PredicateError(problem, position=position)
        kind, written = str(match.lastgroup), match.group()
        if kind == "word" and written.lower() in KEYWORDS:
            kind = written.lower()
        if kind != "blank":
            yield _Token(kind, written, position)
        position = match.end()
    yield _Token("end", "", len(text))


def _literal(compared: Field, operator: Operator, token: _Token) -> str | int | float:
    """What a value means for this field and operator: see `Compare`."""
    is_quoted = token.kind == "quoted"
    text = _unquoted(token.text) if is_quoted else token.text
    if compared.name == "time":
        try:
            return int(text) if _INTEGER.fullmatch(text) else parse_time(text)
        except ValueError as error:
            raise PredicateError(f"{error}; an integer of nanoseconds will do too") from None
    if operator in ("<", ">") and not is_quoted and NUMBER.fullmatch(text):
        return float(text)
    return text


def _unquoted(written: str) -> str:
    return _ESCAPE.sub(r"\1", written[1:-1])


def _unexpected(token: _Token, wanted: str) -> PredicateError:
    got = "the expression ends" if token.kind == "end" else f"got {cut(token.text)}"
    return PredicateError(f"expected {wanted}, {got}", position=token.position)


@contextmanager
def _placed(position: int) -> Iterator[None]:
    """Adds the position to the errors of nodes, which know none."""
    try:
        yield
    except PredicateError as error:
        if error.position is not None:
            raise
        raise PredicateError(str(error), position=position) from None
