"""The page in the browser: its modules as they lie here, and all of them as one script for a file.

1. `modules/` has what every diagram is drawn with. The service serves these files as they are: no build step.
2. A file that must stand alone gets one script: the modules that its entry needs, each in a function of its own, in
   an order in which every module comes after those that it imports. Same sources, same bytes.
3. Only the forms of `import` and `export` that we write are known; any other is a `ValueError`, and so is a circle.

Exports are handed on by value, so a module must not export what it assigns later. None of ours does: they export
constants, functions and classes.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

from beforehand.diagram.page.markup import Markup

__all__ = ["drawn_frame", "drawn_script", "drawn_style", "joined_modules", "shared_files"]

_PACKAGE: Final = "beforehand.diagram.page"
_IMPORT: Final = re.compile(r'^import \{ ([^}]+) \} from "[./\w]*/(\w+\.js)";$', re.MULTILINE)
_DECLARED: Final = re.compile(r"^export (?=(?:const|class|async function|function) (\w+))", re.MULTILINE)
_LISTED: Final = re.compile(r"^export \{ ([\w, ]+) \};$", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
_REMARK: Final = re.compile(r"^[ ]*//.*\n", re.MULTILINE)  # A line of its own; a file need not carry it.
_ENDING: Final = re.compile(r"</script|<!--", re.IGNORECASE)


@cache
def shared_files() -> dict[str, str]:
    """The modules, style sheets and frame that every diagram has, by name."""
    return _files("modules")


@cache
def drawn_script() -> str:
    """The program of a file that stands alone."""
    return joined_modules({**shared_files(), **_files("drawn")}, "drawn.js")


@cache
def drawn_style() -> str:
    """The style sheet inside a diagram."""
    return shared_files()["page.css"] + shared_files()["panel.css"]


@cache
def drawn_frame() -> Markup:
    """The markup inside a diagram, with its style sheet: ours alone, so it goes in as it is."""
    inner = f"<style>{drawn_style()}</style>{shared_files()['frame.html']}<slot></slot>"
    return Markup(f'<template id="frame">{inner}</template>')


def joined_modules(sources: dict[str, str], entry: str) -> str:
    """One classic script that does what the module `entry` does."""
    order: list[str] = []
    _visit(entry, sources, order, [])
    parts = ['"use strict";\n(() => {\nconst modules = {};\n']
    for name in order:
        body, exported = _converted(name, sources[name])
        parts.append(f'// {name}\nmodules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();\n')
    script = "".join([*parts, "})();\n"])
    if _ENDING.search(script):
        raise ValueError("the script has a text that could end its element")
    return script


def _visit(name: str, sources: dict[str, str], order: list[str], above: list[str]) -> None:
    if name in above:
        raise ValueError(f"modules import each other in a circle: {' -> '.join([*above, name])}")
    if name in order:
        return
    if name not in sources:
        raise ValueError(f"{above[-1] if above else 'nothing'} imports {name}, which is not there")
    for _, needed in _IMPORT.findall(sources[name]):
        _visit(needed, sources, order, [*above, name])
    order.append(name)


def _converted(name: str, source: str) -> tuple[str, list[str]]:
    exported = [*_DECLARED.findall(source)]
    for names in _LISTED.findall(source):
        exported += names.split(", ")
    body = _IMPORT.sub(lambda match: f'const {{ {match[1].replace(" as ", ": ")} }} = modules["{match[2]}"];', source)
    body = _LISTED.sub("", _DECLARED.sub("", body))
    left = _LEFT.search(body)
    if left is not None:
        raise ValueError(f"{name}: this form is not known here: {left[0]}")
    return _REMARK.sub("", body), exported


def _files(folder: str) -> dict[str, str]:
    found = {file.name: file.read_text(encoding="utf-8") for file in (files(_PACKAGE) / folder).iterdir()}
    return dict(sorted((name, text) for name, text in found.items() if "." in name and not name.startswith("_")))
