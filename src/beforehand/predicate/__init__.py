"""The `where` language used everywhere: see `expression.py` for its grammar and meaning."""

from beforehand.predicate.expression import Predicate
from beforehand.predicate.patterns import (
    PATTERN_COST_MAX,
    PATTERN_LENGTH_MAX,
    SEARCH_LENGTH_MAX,
    SEARCH_SECONDS_MAX,
)
from beforehand.predicate.reading import EXPRESSION_LENGTH_MAX, PATTERNS_MAX
from beforehand.predicate.tree import DEPTH_MAX, And, Compare, Field, Node, Not, Or

__all__ = [
    "DEPTH_MAX",
    "EXPRESSION_LENGTH_MAX",
    "PATTERNS_MAX",
    "PATTERN_COST_MAX",
    "PATTERN_LENGTH_MAX",
    "SEARCH_LENGTH_MAX",
    "SEARCH_SECONDS_MAX",
    "And",
    "Compare",
    "Field",
    "Node",
    "Not",
    "Or",
    "Predicate",
]
