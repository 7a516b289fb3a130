"""Programs with one thing wrong: a copy of `ordering` and `sim` in which one text of one module is another.

The changed module is compiled from its changed source, and with it every module that imports it, directly or not: so
whatever runs in the copy runs the change. Nothing of the real program is touched.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import beforehand
from beforehand.sim import Outcome, Scenario, draw

PACKAGE = Path(beforehand.__file__).parent
ROOMS = ("clocks", "ordering", "sim")
ENTRY = "beforehand.sim.run"

Simulate = Callable[[Scenario], Outcome]


@dataclass(frozen=True)
class Bug:
    """In `module` (without `beforehand.`) the text `old`, which occurs once, is `new`."""

    name: str
    module: str
    old: str
    new: str
    run: Sequence[str]  # The protocols in which it is looked for.
    breaks: str  # In one line; of an equivalent one, why nothing breaks.


@dataclass(frozen=True)
class Catch:
    """A drawn scenario in which the bug shows, after how many that it does not show in, and what is said then."""

    protocol: str
    seed: int
    tried: int
    failure: str


class ChangedTextError(Exception):
    """The text that a bug changes is not in the module any more, or not only once."""


def true_source(module: str) -> str:
    return _path(f"beforehand.{module}").read_text()


def source_of(bug: Bug) -> str:
    """The source of the module with the bug in it."""
    source = true_source(bug.module)
    if source.count(bug.old) != 1:
        raise ChangedTextError(f"{bug.name}: {source.count(bug.old)} times in {bug.module}, not once: {bug.old!r}")
    return source.replace(bug.old, bug.new)


def build(module: str, source: str) -> Simulate:
    """`simulate` of a program whose `beforehand.<module>` has this source."""
    simulate: Simulate = build_entry(module, source, ENTRY).simulate
    return simulate


def build_entry(module: str, source: str, entry: str) -> Any:
    """The module `entry` of a program whose `beforehand.<module>` has this source."""
    changed = f"beforehand.{module}"
    order = _order(entry)
    assert changed in order, f"{entry} does not use {changed}"
    above = {changed}
    for name in order:
        if _imports(name) & above:
            above.add(name)
    real = {name: sys.modules[name] for name in above}
    try:
        for name in order:
            if name in above:
                code = compile(source, str(_path(name)), "exec") if name == changed else _code(name)
                sys.modules[name] = made = ModuleType(name)
                made.__package__ = name if _path(name).name == "__init__.py" else name.rpartition(".")[0]
                exec(code, made.__dict__)
        return sys.modules[entry]
    finally:
        sys.modules.update(real)


def with_bug(bug: Bug) -> Simulate:
    return build(bug.module, source_of(bug))


def shows(simulate: Simulate, protocol: str, seed: int) -> str | None:
    """What is wrong with the run of a drawn scenario, if anything."""
    try:
        verdict = simulate(drawn(protocol, seed)).verdict
    except Exception as error:  # noqa: BLE001 (whatever a bug raises, it has shown itself)
        return f"{type(error).__name__}: {error}"
    return None if verdict.passed else verdict.failures[0]


def search(bug: Bug, seeds: int) -> Catch | None:
    """The first seed, of each protocol in turn, in which the bug shows."""
    simulate = with_bug(bug)
    for tried, (seed, protocol) in enumerate(product(range(seeds), bug.run)):
        failure = shows(simulate, protocol, seed)
        if failure is not None:
            return Catch(protocol, seed, tried, failure)
    return None


@cache
def drawn(protocol: str, seed: int) -> Scenario:
    return draw(protocol, seed)


@cache
def _order(entry: str) -> tuple[str, ...]:
    """The modules of the rooms that `entry` needs, each after those that it imports."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for needed in sorted(_imports(name)):
                visit(needed)
            importlib.import_module(name)
            found[name] = None

    visit(entry)
    return tuple(found)


@cache
def _imports(name: str) -> frozenset[str]:
    return frozenset(_imported(ast.parse(_path(name).read_text())))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:  # What is imported for type checking only stands deeper.
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            top, *rest = node.module.split(".")
            if top == "beforehand" and rest and rest[0] in ROOMS:
                parts = [f"{node.module}.{alias.name}" for alias in node.names]
                modules = [part for part in parts if _path(part).exists()]  # `from package import module`
                yield from modules or [node.module]


@cache
def _code(name: str) -> CodeType:
    return compile(_path(name).read_text(), str(_path(name)), "exec")


def _path(name: str) -> Path:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
