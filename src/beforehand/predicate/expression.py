r"""The `where` language: which events are meant.

    expression := term ("or" term)*        term := factor ("and" factor)*
    factor     := "not" factor | "(" expression ")" | field operator value
    operator   := "=" | "!=" | "~" | "<" | ">"
    field      := name | process | execution | kind | time | attributes.KEY | attributes."any key"
    value      := bare word (letters, digits and _ - . : / + @ #) | "quoted" | 'quoted'

Keywords are read in any case; a value that is one is quoted. In quotes `\\` is a backslash, `\"` and `\'` are
quotes, and any other backslash stands for itself, so that a pattern reads as it is: `name ~ "pay\w+ failed"`.

Meaning:

1. A field that an event lacks (no time, no such attribute) makes `=`, `~`, `<` and `>` false and `!=` true.
   `not` is plain negation: `not time < 5` holds for an event without a time.
2. `=` and `!=` compare text exactly; `kind` knows only them. `time` is compared as nanoseconds; its value is
   RFC 3339 or an integer of nanoseconds.
3. `<` and `>` on text compare numbers (64-bit floats) if the value is a number without quotes, and are false
   where the field is not a finite number; otherwise they compare by code points.
4. `~` searches anywhere in the text with the module `regex` (its version 0 rules).

Expressions come from strangers, so texts, nesting, patterns and each search have a limit; what exceeds one is
a `PredicateError`, never a wrong answer. Recursion goes no deeper than `DEPTH_MAX`, a few frames each; chains
of `and` and `or` are flat. The time limit of a search is kept by `regex` itself and may be overrun somewhat
(0.18 s measured for a back-reference on a text of a million characters).
"""

from __future__ import annotations

from dataclasses import dataclass

from beforehand.events import Event
from beforehand.predicate.reading import parse
from beforehand.predicate.tree import Node

__all__ = ["Predicate"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed expression. Call it with an event; `str` is its canonical text, which parses to an equal one.

    (The canonical text may be a little longer than what was parsed, so close below `EXPRESSION_LENGTH_MAX`
    it may be too long to be parsed again.)
    """

    tree: Node

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """Read an expression. Raises `PredicateError` with the position of what is wrong."""
        return cls(parse(text))

    def __call__(self, event: Event) -> bool:
        """Whether the event is meant. Raises `PredicateError` only if a search exceeds its limits."""
        return self.tree.holds(event)

    def __str__(self) -> str:
        return str(self.tree)
