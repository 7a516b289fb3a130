"""Regular expressions from strangers: compiled and searched within limits.

Compiling is bounded by `PATTERN_COST_MAX`, searching by `SEARCH_SECONDS_MAX`, and nothing is cut to fit: what
exceeds a limit is a `PredicateError`.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from beforehand.errors import PredicateError

__all__ = [
    "PATTERN_COST_MAX",
    "PATTERN_LENGTH_MAX",
    "SEARCH_LENGTH_MAX",
    "SEARCH_SECONDS_MAX",
    "Pattern",
    "compile_pattern",
    "cost_of",
    "cut",
    "is_found",
]

PATTERN_LENGTH_MAX: Final = 1_000
PATTERN_COST_MAX: Final = (
    200_000  # Of all in an expression; see `cost_of`. The worst found within it takes 0.3 s, 60 MB.
)
SEARCH_LENGTH_MAX: Final = 1_000_000
SEARCH_SECONDS_MAX: Final = 0.1


class Pattern(Protocol):
    """What we use of a compiled pattern of the module `regex`."""

    @property
    def pattern(self) -> str: ...

    def search(self, string: str, *, timeout: float) -> object | None: ...


def is_found(pattern: Pattern, text: str) -> bool:
    """Whether the pattern matches anywhere in the text."""
    if len(text) > SEARCH_LENGTH_MAX:
        raise PredicateError(
            f"~ {cut(pattern.pattern)} met a text of {len(text)} characters, it searches at most "
            f"{SEARCH_LENGTH_MAX}: compare another field"
        )
    try:
        return pattern.search(text, timeout=SEARCH_SECONDS_MAX) is not None
    except (TimeoutError, MemoryError):
        raise PredicateError(
            f"~ {cut(pattern.pattern)} took more than {SEARCH_SECONDS_MAX} s or too much memory on one "
            "event: simplify the pattern, avoid repeats inside repeats"
        ) from None


def cut(text: str) -> str:
    """Text for a sentence: quoted, on one line, not too long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


_FLAGS: Final = re.compile(r"\(\?([A-Za-z0-9]+)[-:)]", re.ASCII)
_REPEAT: Final = re.compile(r"(\))?(?:\+|\{(\d+))", re.ASCII)


def compile_pattern(text: str) -> Pattern:
    """The pattern, checked to be harmless to compile. Raises `PredicateError`."""
    try:
        import regex  # Late, because the light core comes without it.
    except ImportError:
        raise PredicateError("~ needs the module regex: pip install 'beforehand[history]'") from None
    if len(text) > PATTERN_LENGTH_MAX:
        raise PredicateError(f"the pattern has {len(text)} characters, the limit is {PATTERN_LENGTH_MAX}")
    for flags in _FLAGS.findall(text):
        # Full case folding (f, and i under V1) does not look at the time limit: measured, 5 s for a limit
        # of 0.1 s. Blanks and comments in a pattern (x) would hide repeats from `cost_of`.
        if "f" in flags or "x" in flags or "V1" in flags:
            raise PredicateError(f"the pattern sets flags (?{flags}): f, x and V1 cannot be used here")
    if cost_of(text) > PATTERN_COST_MAX:
        raise PredicateError(f"the repeats in pattern {cut(text)} multiply too far: use smaller counts")
    try:
        compiled: Pattern = regex.compile(text, flags=regex.VERSION0, cache_pattern=False)
    except (regex.error, RecursionError, MemoryError, OverflowError, ValueError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise PredicateError(f"pattern {cut(text)} is not a regular expression: {why}") from None
    return compiled


def cost_of(text: str) -> int:
    """An upper bound, in characters, of the pattern with its repeats written out.

    `regex` compiles `(...){n,m}` to n copies and a loop, and `(...)+` to one and a loop, so repeats inside
    repeats multiply: 17 characters can crash the interpreter and 27 take all memory (measured). Groups
    beside each other are counted as if they were nested, and so is what only looks like a repeat (in
    brackets, escaped): that errs on the safe side, and real patterns stay far below the limit.
    """
    groups, single = 1, 1
    for group, count in _REPEAT.findall(text):
        if group:
            groups *= int(count or 1) + 1
        else:
            single = max(single, int(count or 1))
    return len(text) * groups * single
