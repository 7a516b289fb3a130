"""JSON from strangers: bytes to values with a limit on depth, and no key lost.

A text is refused if it is not JSON in UTF-8 (`not-json`; also numbers beyond any float and lone surrogates,
which no later stage could write), if its brackets are nested too deep (`too-deep`), or if an object has a
key twice (`key-twice`): decoders keep one of the two silently, and it may have been the one that mattered.
"""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias

import msgspec

__all__ = ["KEY_TWICE", "NOT_JSON", "TOO_DEEP", "Json", "RefusedError", "compact_json", "decode_json", "shown"]

NOT_JSON: Final = "not-json"
TOO_DEEP: Final = "too-deep"
KEY_TWICE: Final = "key-twice"

# What JSON can hold; msgspec gives exactly these types.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class RefusedError(Exception):
    """The text at hand is refused. Never leaves `formats`: readers turn it into a `Rejection`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def decode_json(data: bytes, *, depth_max: int) -> Json:
    """The value of one JSON text. Raises `RefusedError`, and nothing else."""
    # Brackets in strings count here too, so this may say no without need; then the exact look decides.
    if data.count(b"[") + data.count(b"{") > depth_max and _is_deeper(data, depth_max):
        raise RefusedError(
            TOO_DEEP, f"brackets are nested deeper than {depth_max}: flatten the line or raise depth_max"
        )
    try:
        value: Json = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RefusedError(NOT_JSON, f"the line is not JSON in UTF-8: {error}") from None
    except RecursionError:  # The caller's own stack is almost used up.
        raise RefusedError(TOO_DEEP, "brackets are nested too deep to decode here") from None
    # Each key is written with a quote and a colon after it. Strings may hold more of those, so there are
    # never fewer than keys: if there are no more than the value has, no key was written twice.
    if len(_KEY_END.findall(data)) != _count_keys(value):
        json.loads(data, object_pairs_hook=_refuse_twice, parse_float=str, parse_int=str)
    return value


def compact_json(value: Json) -> str:
    """A value as JSON text without blanks, its characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown(value: Json) -> str:
    """A value for a sentence: as JSON in ASCII, on one line, cut."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_KEY_END: Final = re.compile(rb'"[ \t\r\n]*:')
# Possessive, and with the closing quote optional, so that each byte is looked at once whatever comes.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def _is_deeper(data: bytes, depth_max: int) -> bool:
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > depth_max:
            return True
    return False


def _count_keys(value: Json) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _refuse_twice(pairs: list[tuple[str, object]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise RefusedError(KEY_TWICE, f"key {shown(key)} is written twice: write it once")
        seen.add(key)
