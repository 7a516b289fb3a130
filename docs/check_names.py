"""Checks that the reference names what the code has: every public name, member, signature, error and reason.

A name is documented if a reference page of its room has it in a code span; the members of a class must be on the
pages that have the class in a heading, where there are such. A function, and a class that is called with options,
must stand there with its signature as the code has it, without types, so that no default can go stale:

    `deliver(stamp, *, timeout=None)`

A default that has no short text (a function, a factory, a record with other values than its own defaults) is written
`...`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pages import Page, Problem

__all__ = ["PARTS", "ROOMS", "check_names", "check_reasons", "reasons_in", "signature"]

ROOMS: Final[Mapping[str, tuple[str, ...]]] = {
    "beforehand.clocks": ("docs/reference/clocks/", "docs/reference/wire.md"),
    "beforehand.diagram": ("docs/reference/diagram.md",),
    "beforehand.errors": ("docs/reference/errors.md",),
    "beforehand.events": ("docs/reference/events.md",),
    "beforehand.formats": ("docs/reference/events.md", "docs/reference/mapped.md"),
    "beforehand.history": ("docs/reference/history.md",),
    "beforehand.notebook": ("docs/reference/notebook.md",),
    "beforehand.ordering": ("docs/reference/ordering/",),
    "beforehand.pipeline": ("docs/reference/pipeline.md", "docs/reference/merge-on-spark.md"),
    "beforehand.predicate": ("docs/reference/predicate.md",),
    "beforehand.reporting": ("docs/reference/reporting.md",),
    "beforehand.rpc": ("docs/reference/rpc.md",),
    "beforehand.runtime": ("docs/reference/runtime.md", "docs/reference/groups.md"),
    "beforehand.service": ("docs/reference/service.md",),
    "beforehand.sim": ("docs/reference/sim.md",),
}
"""Each room and where its reference is: a page, or a folder (ends in a slash)."""

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "beforehand.formats.mapped": ("docs/reference/mapped.md",),
    "beforehand.formats.spans": ("docs/reference/spans.md",),
    "beforehand.formats.vector_logs": ("docs/reference/vector-logs.md",),
    "beforehand.service.subscriptions": ("docs/reference/subscriptions.md",),
}
"""The same for packages inside a room that have public names of their own."""

_ASSIGNED: Final = re.compile(r"self\.(\w+) = ")
_WORD: Final = re.compile(r"\w+")
_REASON: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True)
class _Documented:
    """What reference pages of one room have in code spans."""

    room: str
    page: str  # Where to add what is missing, if there is no page at all.
    pages: Sequence[Page]

    @cached_property
    def spans(self) -> frozenset[str]:
        return frozenset(span for page in self.pages for span in page.spans())

    @cached_property
    def words(self) -> frozenset[str]:
        """All identifiers inside the spans."""
        return frozenset(word for span in self.spans for word in _WORD.findall(span))

    def of_class(self, name: str) -> _Documented:
        titled = [page for page in self.pages if page.titled(name)]
        return _Documented(self.room, titled[0].name, titled) if titled else self

    def problem(self, what: str, todo: str) -> Problem:
        return Problem(self.page, 1, f"{self.room}: {what}", todo)


def check_names(pages: Sequence[Page], rooms: Mapping[str, tuple[str, ...]] | None = None) -> list[Problem]:
    """`rooms` are all rooms and parts if not given."""
    rooms = {**ROOMS, **PARTS} if rooms is None else rooms
    problems: list[Problem] = []
    for room, places in rooms.items():
        chosen = [page for page in pages if page.name.startswith(places)]
        documented = _Documented(room, f"{places[0]}README.md" if places[0].endswith("/") else places[0], chosen)
        module = importlib.import_module(room)
        for name in module.__all__:
            problems += _check(name, getattr(module, name), documented)
    return problems


def check_reasons(pages: Sequence[Page], source: Path) -> list[Problem]:
    """Every reason of a rejection that the code gives is listed in the reference."""
    spans = {span for page in pages if page.name.startswith("docs/reference/") for span in page.spans()}
    return [
        Problem(
            "docs/reference/events.md", 1, f"reason `{reason}` ({file}) is not listed", "list it with its meaning"
        )
        for reason, file in sorted(reasons_in(source).items())
        if reason not in spans
    ]


def reasons_in(source: Path) -> dict[str, str]:
    """Reasons of rejections, each with a file that gives it, found in the calls that make rejections."""
    found: dict[str, str] = {}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py"))}
    imported = {name: text for tree in trees.values() for name, text in _text_constants(tree)}
    for path, tree in trees.items():
        constants = {**imported, **dict(_text_constants(tree))}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            given = [keyword.value for keyword in call.keywords if keyword.arg == "reason" and name == "Rejection"]
            if name in ("reject", "Finding", "RefusedError"):
                given += call.args[:1]
            for value in given:
                text = value.value if isinstance(value, ast.Constant) else None
                text = constants.get(value.id) if isinstance(value, ast.Name) else text
                if isinstance(text, str) and _REASON.fullmatch(text):
                    found.setdefault(text, path.name)
    return found


def signature(name: str, function: Callable[..., object], *, method: bool = False) -> str:
    """How a call is written, without types: `send(*to)`. Private parameters are left out."""
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    parameters = [parameter for parameter in parameters if not parameter.name.startswith("_")]
    parts: list[str] = []
    star = slash = False
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            slash = True
        elif slash:
            parts.append("/")
            slash = False
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else prefix
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        default = "" if parameter.default is parameter.empty else f"={_shown(parameter.default)}"
        parts.append(f"{prefix}{parameter.name}{default}")
    return f"{name}({', '.join([*parts, '/'] if slash else parts)})"


def _check(name: str, value: object, documented: _Documented) -> Iterable[Problem]:
    if name not in documented.spans:
        yield documented.problem(f"`{name}` is not documented", "describe it")
    if isinstance(value, type):
        yield from _check_class(name, value, documented.of_class(name))
    elif inspect.isfunction(value):
        yield from _check_signature(name, signature(name, value), documented)


def _check_class(name: str, value: type, documented: _Documented) -> Iterable[Problem]:
    fields = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    fields += getattr(value, "_fields", ())
    attributes = [field for field in fields if not field.startswith("_")]
    if issubclass(value, enum.Enum):
        attributes += [member.name for member in value]
    elif issubclass(value, Exception):
        attributes += _ASSIGNED.findall(inspect.getsource(value))
    elif _has_options(value, is_plain=not fields):
        yield from _check_signature(name, signature(name, value), documented)
    for attribute, member in vars(value).items():
        if attribute.startswith("_") or attribute in attributes or isinstance(value, enum.EnumType):
            continue
        if isinstance(member, staticmethod | classmethod):
            yield from _check_signature(name, signature(attribute, getattr(value, attribute)), documented)
        elif inspect.isfunction(member):
            yield from _check_signature(name, signature(attribute, member, method=True), documented)
        elif isinstance(member, property) or hasattr(member, "__get__"):
            attributes.append(attribute)
    for attribute in attributes:
        if attribute not in documented.words:
            yield documented.problem(f"`{name}.{attribute}` is not documented", "describe it")


def _check_signature(owner: str, text: str, documented: _Documented) -> Iterable[Problem]:
    if text not in documented.spans:
        yield documented.problem(f"{owner}: no code span has this signature", f"write `{text}`")


def _has_options(value: type, *, is_plain: bool) -> bool:
    """Whether its users call it: a plain class with a constructor, or a record with defaults."""
    if inspect.isabstract(value) or getattr(value, "_is_protocol", False):
        return False
    parameters = inspect.signature(value).parameters.values()
    return bool(parameters) if is_plain else any(p.default is not p.empty for p in parameters)


def _shown(default: object) -> str:
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return f"{type(default).__name__}()" if default == type(default)() else "..."
    text = repr(default)
    return "..." if text.startswith("<") else text


def _text_constants(tree: ast.Module) -> Iterable[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            if isinstance(value, str):
                yield node.target.id, value
