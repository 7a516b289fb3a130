"""Checks that SECURITY.md names every listener, every reader and every fuzz target, with bounds that are the code's.

A listener is found by the calls that open one. A file that has such a call must stand in the table of listeners; one
that stands there must have such a call. So nobody can add a door without saying who may come in.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from check_names import PARTS, ROOMS
from pages import ROOT, Page, Problem, Section

__all__ = ["SECURITY", "check_security", "fuzz_targets", "listening_files", "public_readers"]

SECURITY: Final = "SECURITY.md"

_LISTENS: Final = re.compile(
    r"\b(?:start_server|start_unix_server|create_server|create_unix_server|create_datagram_endpoint)\("
    r"|\.(?:bind|listen|add_insecure_port|add_secure_port)\("
    r"|\b(?:uvicorn\.(?:Config|run)|\w*(?:HTTPServer|TCPServer|UDPServer)|serve_forever)\b"
    r'|"-a", "127\.0\.0\.1"|"spark\.driver\.bindAddress"|\blaunch_gateway\(|\bJavaGateway\('
)
_READS: Final = ("read_", "parse_", "decode_", "detect", "open_")
_FILE: Final = re.compile(r"[a-z_]+(?:/[a-z_]+)*\.py")


def check_security(pages: Sequence[Page], source: Path = ROOT / "src" / "beforehand") -> list[Problem]:
    page = next((page for page in pages if page.name == SECURITY), None)
    if page is None:
        return [Problem(SECURITY, 1, "the page is not there", "write it")]
    sections = {title: page.section(title) for title in ("Listeners", "Parsers and decoders", "Bounds")}
    problems = [
        Problem(SECURITY, 1, f"no heading {title}", "give it a section")
        for title, found in sections.items()
        if not found
    ]
    listeners, parsers, bounds = sections.values()
    if listeners is not None:
        problems += _check_listeners(listeners, listening_files(source))
    if parsers is not None:
        problems += _check_parsers(parsers, fuzz_targets(), public_readers())
    if bounds is not None:
        problems += _check_bounds(bounds)
    return problems


def listening_files(source: Path) -> set[str]:
    """Files below `source` that open a port or have one opened."""
    files = ((path, path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py")))
    return {path.relative_to(source).as_posix() for path, text in files if _LISTENS.search(text)}


def fuzz_targets() -> list[str]:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from fuzz.targets import targets

    return [target.name for target in targets()]


def public_readers() -> list[str]:
    """Public functions of all rooms that make something of bytes, by their names."""
    names = (name for room in (*ROOMS, *PARTS) for name in importlib.import_module(room).__all__)
    return sorted({name for name in names if name.startswith(_READS)})


def _check_listeners(section: Section, files: Collection[str]) -> Iterator[Problem]:
    named = {span for span in section.spans() if _FILE.fullmatch(span)}
    for file in sorted(set(files) - named):
        yield Problem(SECURITY, section.line, f"{file} listens, and is not named", "say who can reach it")
    for file in sorted(named - set(files)):
        yield Problem(SECURITY, section.line, f"{file} is named, and does not listen", "correct it")


def _check_parsers(section: Section, targets: Iterable[str], readers: Iterable[str]) -> Iterator[Problem]:
    spans = section.spans()
    families = tuple(span.removesuffix("*") for span in spans if span.endswith("-*"))
    for target in targets:
        if target not in spans and not target.startswith(families or ("\0",)):
            yield Problem(SECURITY, section.line, f"fuzz target `{target}` is not named", "say what it attacks")
    known = set(targets)
    for _, row in _table(section):
        for span in re.findall(r"`([a-z-]+\*?)`", row[-1]):
            family = span.endswith("*") and any(name.startswith(span[:-1]) for name in known)
            if span not in known and not family:
                yield Problem(SECURITY, section.line, f"there is no fuzz target `{span}`", "correct it")
    for reader in readers:
        if reader not in spans:
            yield Problem(SECURITY, section.line, f"`{reader}` is not named", "say whose bytes it reads")


def _check_bounds(section: Section) -> Iterator[Problem]:
    for line, row in section.rows():
        name, shown = row[0].strip("`"), row[1]
        try:
            value = _value(name)
        except (ImportError, AttributeError):
            yield Problem(SECURITY, line, f"there is no `{name}`", "correct it")
            continue
        text = f"{value:,}" if value != int(value) else f"{int(value):,}"
        if shown != text:
            yield Problem(SECURITY, line, f"`{name}` is {text}, not {shown}", "correct it")


def _value(name: str) -> float:
    """Of a constant of a module, or of the default of a settings class."""
    path, _, last = name.rpartition(".")
    module, _, owner = path.rpartition(".")
    found: object
    if owner[:1].isupper():
        found = getattr(getattr(importlib.import_module(module), owner)(), last)
    else:
        found = getattr(importlib.import_module(path), last)
    assert isinstance(found, int | float)
    return found


def _table(section: Section) -> Iterator[tuple[int, list[str]]]:
    """All rows but head and rule, also those that begin with words."""
    for number, line in enumerate(section.lines, start=section.line + 1):
        if line.startswith("| ") and not line.startswith("| What"):
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]
