r"""JavaScript's regular expressions, as ShiViz takes them, run by the module `regex` within limits.

A pattern is translated piece by piece, so that nothing of it can mean something else here than in a browser: the
module's own inventions (fuzzy counts, recursion, inline flags, POSIX classes, possessive repeats) cannot be reached.
It means what JavaScript means by it with the flags `g` and `m`, without `u`, except that

- plain groups do not capture, as in ShiViz, so numbered back-references are refused;
- a line ends at `\n` only, for `.`, `^` and `$`: a stray `\r` or U+2028 does not tear a record apart;
- a character beyond U+FFFF is one character.

Compiling is bounded by the pattern's length, depth and repeats; searching by `Budget`, a total time for all searches.
What exceeds a limit is an `InputError` of one line that names the pattern.
"""

from __future__ import annotations

import re
import time
from typing import Final, Protocol

from beforehand.errors import InputError

__all__ = ["Budget", "JavaScriptRegex", "Match"]

_COST_MAX: Final = 200_000  # Characters with repeats written out; `regex` compiles `(...){n,}` to n copies.
_DEPTH_MAX: Final = 50

_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)
_GROUP: Final = re.compile(r"\((?:\?(?:(?P<plain>:|=|!|<=|<!)|<(?P<name>[A-Za-z_][A-Za-z0-9_]*)>)|(?!\?))")
_BACK_REFERENCE: Final = re.compile(r"\\k<([A-Za-z_][A-Za-z0-9_]*)>")
_CODE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|c([A-Za-z]))")
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
# What \s and \S mean in JavaScript, for the inside of brackets. The module's own \s is another set.
_BLANK: Final = "\\t\\n\\x0b\\f\\r\\x20\xa0\u1680\u2000-\u200a\\u2028\\u2029\u202f\u205f\u3000\ufeff"
_NOT_BLANK: Final = (
    "\\x00-\\x08\\x0e-\\x1f\\x21-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    "\u3001-\ufefe\uff00-\U0010ffff"
)


class Match(Protocol):
    """What we use of a match, of `regex` or of `re`."""

    def start(self, group: str = ..., /) -> int: ...
    def end(self, group: str = ..., /) -> int: ...
    def groupdict(self) -> dict[str, str | None]: ...


class Budget:
    """The time that searching may still take."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left = seconds

    def __str__(self) -> str:
        return f"{self._seconds:g} s"

    @property
    def left(self) -> float:
        return max(self._left, 1e-9)  # `regex` takes a negative time for no limit.

    def spend(self, seconds: float) -> None:
        self._left -= seconds


class JavaScriptRegex:
    """A compiled pattern. `what` names it in errors, such as "the regex"."""

    def __init__(self, source: str, *, what: str, length_max: int) -> None:
        if len(source) > length_max:
            raise InputError(f"{what} has {len(source)} characters, the limit is {length_max}")
        self._what = f"{what} {source if len(source) <= 60 else source[:57] + '...'!a}"
        try:
            import regex  # Late, because the light core comes without it.
        except ImportError:
            raise InputError(f"{what} needs the module regex: pip install 'beforehand[history]'") from None
        try:
            translation = _Translation(source)
        except _InvalidError as error:
            raise InputError(f"{self._what} cannot be used: {error}") from None
        self.groups = tuple(translation.names)
        flags = regex.VERSION0 | regex.MULTILINE | regex.ASCII
        try:
            self._pattern = regex.compile(translation.text, flags=flags, cache_pattern=False)
        except (regex.error, RecursionError, MemoryError, OverflowError, ValueError) as error:
            # The position is one of the translation, which nobody has seen.
            why = "nested too deep" if isinstance(error, RecursionError) else str(error).split(" at position")[0]
            raise InputError(f"{self._what} is not a regular expression: {why}") from None

    def require(self, *groups: str) -> None:
        """Raise `InputError` unless the pattern has these named groups."""
        missing = [f"(?<{group}>...)" for group in groups if group not in self.groups]
        if missing:
            raise InputError(f"{self._what} lacks {', '.join(missing)}: name these groups in it")

    def search(self, text: str, start: int, end: int, budget: Budget) -> Match | None:
        """The first match that begins at `start` or later and ends at `end` or before."""
        began = time.perf_counter()
        try:
            found: Match | None = self._pattern.search(text, start, end, timeout=budget.left)
        except (TimeoutError, MemoryError):
            raise InputError(
                f"{self._what} took more than {budget} on {len(text)} characters, or too much memory: "
                "begin it with ^, avoid repeats inside repeats, or raise match_seconds_max"
            ) from None
        budget.spend(time.perf_counter() - began)
        return found


class _InvalidError(Exception):
    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why} (at character {position + 1})")


class _Translation:
    """One pass over the pattern. `text` is for `regex`, `names` are its groups in order."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._costs = [0]  # Per open group, what it will take so far; the pattern itself is the first.
        self._atom: int | None = None  # What the last thing takes that a repeat can follow; None: no such thing.
        self.names: list[str] = []
        while self._at < len(source):
            self._step(source[self._at])
        if len(self._costs) > 1:
            raise _InvalidError("a group is not closed", len(source))
        if self._costs[0] > _COST_MAX:
            raise _InvalidError("its repeats multiply too far: use smaller counts", 0)
        self.text = "".join(self._out)

    def _step(self, character: str) -> None:
        match character:
            case "(":
                self._open()
            case ")":
                self._close()
            case "[":
                self._emit(self._brackets())
            case "\\":
                self._escape()
            case "*" | "+" | "?":
                self._repeat(character, 1, least=1 if character == "+" else 0)
            case "{" if count := _COUNT.match(self._source, self._at):
                self._repeat(count.group(), len(count.group()), least=int(count.group(1)))
            case "|" | "^" | "$":
                self._out.append(character)
                self._atom = None
                self._at += 1
            case ".":
                self._emit(".")
                self._at += 1
            case _:
                self._emit(_literal(character))
                self._at += 1

    def _emit(self, text: str, cost: int = 1) -> None:
        self._out.append(text)
        self._costs[-1] += cost
        self._atom = cost

    def _open(self) -> None:
        group = _GROUP.match(self._source, self._at)
        if group is None:
            raise _InvalidError("a group that JavaScript does not have: use (?<name>...), (?:...) or (...)", self._at)
        name = group.group("name")
        if name in self.names:
            raise _InvalidError(f"two groups are named {name}", self._at)
        if len(self._costs) > _DEPTH_MAX:
            raise _InvalidError(f"groups are nested deeper than {_DEPTH_MAX}", self._at)
        if name is not None:
            self.names.append(name)
        self._out.append(f"(?P<{name}>" if name is not None else f"(?{group.group('plain') or ':'}")
        self._costs.append(1)
        self._atom = None
        self._at = group.end()

    def _close(self) -> None:
        if len(self._costs) == 1:
            raise _InvalidError("a ) that closes nothing: write \\) for the character", self._at)
        self._emit(")", self._costs.pop())
        self._at += 1

    def _repeat(self, text: str, length: int, *, least: int) -> None:
        if self._atom is None:
            raise _InvalidError(f"nothing to repeat before {text}: write \\{text[0]} for the character", self._at)
        self._at += length
        if self._source.startswith("?", self._at):
            text += "?"
            self._at += 1
        self._out.append(text)
        # Capped, lest repeats of repeats make a number that itself takes long.
        self._costs[-1] = min(self._costs[-1] + self._atom * least, _COST_MAX + 1)
        self._atom = None

    def _escape(self) -> None:
        if back := _BACK_REFERENCE.match(self._source, self._at):
            self._emit(f"(?P={back.group(1)})")
            self._at = back.end()
            return
        letter = self._source[self._at + 1 : self._at + 2]
        if letter.isascii() and letter.isdigit() and letter != "0":
            raise _InvalidError(
                "numbered back-references cannot be used: name the group and write \\k<name>", self._at
            )
        if letter in ("b", "B"):
            self._out.append(f"\\{letter}")
            self._atom = None
            self._at += 2
        elif letter in ("s", "S"):
            self._emit(f"[{'^' if letter == 'S' else ''}{_BLANK}]")
            self._at += 2
        elif letter and letter in "dDwW":
            self._emit(f"\\{letter}")
            self._at += 2
        else:
            self._emit(_literal(self._escaped_character()))

    def _escaped_character(self) -> str:
        """The one character that an escape stands for; goes past it."""
        if self._at + 1 == len(self._source):
            raise _InvalidError("it ends with a backslash", self._at)
        if code := _CODE.match(self._source, self._at):
            self._at = code.end()
            byte, unit, control = code.groups()
            return chr(int(byte or unit, 16)) if control is None else chr(ord(control) % 32)
        letter = self._source[self._at + 1]
        self._at += 2
        return _CONTROLS.get(letter, letter)

    def _brackets(self) -> str:
        """A character class, from its [ to past its ]."""
        opened = self._at
        self._at += 1
        negated = self._source.startswith("^", self._at)
        self._at += negated
        members: list[str] = []  # A character, or the inside of a set, which has a backslash or is longer.
        while not self._source.startswith("]", self._at):
            if self._at >= len(self._source):
                raise _InvalidError("a [ is not closed", opened)
            members.append(self._member())
        self._at += 1
        if not members:
            return "(?s:.)" if negated else "(?!)"  # JavaScript's [^] and [].
        return f"[{'^' if negated else ''}{self._ranges(members, opened)}]"

    def _member(self) -> str:
        letter = self._source[self._at]
        if letter != "\\":
            self._at += 1
            return letter
        kind = self._source[self._at + 1 : self._at + 2]
        if kind and kind in "dDwWsSb":
            self._at += 2
            return {"s": _BLANK, "S": _NOT_BLANK, "b": "\b"}.get(kind, f"\\{kind}")
        # An escaped dash is a member like any other, never the sign of a range.
        character = self._escaped_character()
        return "\\x2d" if character == "-" else character

    def _ranges(self, members: list[str], opened: int) -> str:
        out: list[str] = []
        at = 0
        while at < len(members):
            first = members[at]
            is_range = at + 2 < len(members) and members[at + 1] == "-"
            last = members[at + 2] if is_range else ""
            # Beside a set such as \d a dash stands for itself.
            if is_range and _is_one(first) and _is_one(last):
                if _one(first) > _one(last):
                    raise _InvalidError("a range of characters runs backwards", opened)
                out.append(f"{_literal(_one(first))}-{_literal(_one(last))}")
                at += 3
            else:
                out.append(_literal(_one(first)) if _is_one(first) else first)
                at += 1
        return "".join(out)


def _is_one(member: str) -> bool:
    return len(member) == 1 or member == "\\x2d"


def _one(member: str) -> str:
    return "-" if member == "\\x2d" else member


def _literal(character: str) -> str:
    """The character itself, whatever it means elsewhere; for the inside of brackets too."""
    if character.isascii() and not character.isalnum():
        return f"\\x{ord(character):02x}"
    return character
