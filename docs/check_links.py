"""Checks every relative link, anchor and picture of the pages. Addresses on the web are not fetched."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pages import Link, Page, Problem, read_page

__all__ = ["check_links", "check_pictures_shown"]

_ELSEWHERE: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def check_links(pages: Sequence[Page], root: Path) -> list[Problem]:
    """Targets must exist inside the project, anchors must be headings, images must have a text."""
    known = {page.path.resolve(): page for page in pages}
    problems: list[Problem] = []
    for page in pages:
        for link in page.links():
            if link.alt is not None and not link.alt.strip():
                todo = "say in its alt text what the picture shows"
                problems.append(Problem(page.name, link.line, f"picture {link.target} has no text", todo))
            if not _ELSEWHERE.match(link.target):
                problems += _check(page, link, known, root.resolve())
    return problems


def check_pictures_shown(pages: Sequence[Page], pictures: Collection[str], folder: Path, root: Path) -> list[Problem]:
    """Every picture that we draw is shown somewhere, and pages show none that we do not draw."""
    shown: dict[Path, tuple[str, int]] = {}
    for page in pages:
        for link in page.links():
            if not _ELSEWHERE.match(link.target):
                target = (page.path.parent / unquote(link.target)).resolve()
                shown.setdefault(target, (page.name, link.line))
    problems: list[Problem] = []
    for name in sorted(pictures):
        if (folder / name).resolve() not in shown:
            todo = "show it on a page, or remove it from docs/pictures.py"
            problems.append(Problem(_name(folder / name, root), 1, "no page shows this picture", todo))
    for target, (page_name, line) in sorted(shown.items()):
        if target.parent == folder.resolve() and target.suffix == ".svg" and target.name not in pictures:
            todo = "add it to docs/pictures.py, or show another"
            problems.append(Problem(page_name, line, f"picture {target.name} is not one that we draw", todo))
    return problems


def _check(page: Page, link: Link, known: dict[Path, Page], root: Path) -> list[Problem]:
    path, _, anchor = unquote(link.target).partition("#")
    target = (page.path.parent / path).resolve() if path else page.path.resolve()
    if not target.is_relative_to(root):
        todo = "link to something inside the project, or by its address on the web"
        return [Problem(page.name, link.line, f"link {link.target} leaves the project", todo)]
    if not target.exists():
        return [Problem(page.name, link.line, f"link {link.target} points to nothing", "correct the path")]
    if not anchor or target.suffix != ".md":
        return []
    if target not in known:
        known[target] = read_page(target, root)
    anchors = known[target].anchors()
    if anchor in anchors:
        return []
    likely = get_close_matches(anchor, sorted(anchors), n=10, cutoff=0.3) if len(anchors) > 20 else sorted(anchors)
    todo = f"use one of {', '.join(likely) or 'none, it has none'}"
    return [Problem(page.name, link.line, f"link {link.target}: no heading has the anchor #{anchor}", todo)]


def _name(path: Path, root: Path) -> str:
    return path.resolve().relative_to(root.resolve()).as_posix()
