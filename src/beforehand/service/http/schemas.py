"""How the OpenAPI document describes answers. Nothing is checked by these: tests compare them with real answers."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ERRORS", "RECEIPT", "Described", "described", "listed"]

Described = dict[int | str, dict[str, Any]]

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_FLAG: Final = {"type": "boolean"}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "text": _TEXT,
    "number": _NUMBER,
    "flag": _FLAG,
    "object": {"type": "object"},
    "objects": {"type": "array", "items": {"type": "object"}},
    "texts": {"type": "array", "items": _TEXT},
    "text?": {"type": ["string", "null"]},
    "number?": {"type": ["integer", "null"]},
    "objects?": {"type": ["array", "null"], "items": {"type": "object"}},
    "any": {},
}


def described(description: str, keys: dict[str, str], optional: dict[str, str] | None = None) -> dict[str, Any]:
    """An answer that is a JSON object with these keys, each of a kind: `text`, `number`, `flag`, `objects`, ..."""
    schema = {
        "type": "object",
        "properties": {name: _KINDS[kind] for name, kind in {**keys, **(optional or {})}.items()},
        "required": list(keys),
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def listed(what: str, description: str, more: dict[str, str] | None = None) -> dict[str, Any]:
    """A page of a list."""
    return described(description, {**(more or {}), what: "objects", "more": "flag", "cursor": "any"})


def _error(description: str) -> dict[str, Any]:
    return described(description, {"error": "text"})


RECEIPT: Final = described(
    "All that is counted is in the store",
    {
        "stored": "number",
        "repeated": "number",
        "conflicts": "number",
        "rejected": "objects",
        "waiting": "number",
        "cursor": "number",
    },
)
ERRORS: Final[Described] = {
    400: _error("It cannot be read"),
    401: _error("A token is needed"),
    403: _error("The caller may not do this"),
    404: _error("There is no such thing"),
    408: _error("The body did not come in time"),
    409: _error("It is not served here"),
    413: _error("Too large"),
    415: _error("A kind of content that is not read"),
    429: _error("Too many requests; see Retry-After"),
    503: _error("Busy, or cut off; see Retry-After"),
}
