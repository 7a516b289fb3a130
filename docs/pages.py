"""Pages of documentation as the checks see them: prose, fenced code, code spans, headings and links.

Markdown is read line by line, as far as our own pages need it: fences of backticks, `#` headings, inline links and
images, link definitions, and `src` or `href` in HTML tags. A construct that this does not know is not checked, so
pages should not use one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Final

__all__ = ["ROOT", "Fence", "Link", "Page", "Problem", "Section", "pages_of", "read_page"]

ROOT: Final = Path(__file__).resolve().parent.parent

_FENCE: Final = re.compile(r"^( *)(`{3,})(.*)$")
_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_HEADING: Final = re.compile(r"^#{1,6} +(.*?) *#*$")
_INLINE: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_DEFINITION: Final = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?", re.MULTILINE)
_HTML: Final = re.compile(r"<(img|source|a)\b[^>]*?\b(?:src|srcset|href)=\"([^\"]+)\"[^>]*>")
_ANCHOR: Final = re.compile(r"<a id=\"([^\"]+)\">")
_ALT: Final = re.compile(r"\balt=\"([^\"]*)\"")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line for a person: where, what is wrong, what to do."""

    file: str
    line: int
    what: str
    todo: str

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}: {self.what}: {self.todo}"
        return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of code; `line` is that of its first line of code, from 1."""

    language: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    line: int
    target: str
    alt: str | None  # None: a link. Else an image, with the text for those who do not see it.


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below one heading; `line` is that of the heading."""

    page: str
    line: int
    lines: tuple[str, ...]

    def spans(self) -> set[str]:
        return {match.group(2).strip() for line in self.lines for match in _SPAN.finditer(line)}

    def rows(self) -> list[tuple[int, list[str]]]:
        """The rows of its tables, each with its line; heads and rules left out."""
        found: list[tuple[int, list[str]]] = []
        for number, line in enumerate(self.lines, start=self.line + 1):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.startswith("| `") and len(cells) > 1:
                found.append((number, cells))
        return found


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    name: str  # Relative to the root of the project.
    prose: str  # The text with fenced code blanked out, so that line numbers stay.
    fences: tuple[Fence, ...]

    def spans(self) -> set[str]:
        """All code spans of the prose, headings and tables included."""
        return {match.group(2).strip() for line in self.prose.split("\n") for match in _SPAN.finditer(line)}

    def titled(self, name: str) -> bool:
        """Whether a heading has this code span."""
        lines = (line for line in self.prose.split("\n") if _HEADING.match(line))
        return any(match.group(2) == name for line in lines for match in _SPAN.finditer(line))

    def section(self, title: str) -> Section | None:
        """The prose below the heading with this text (code spans count as their text), up to the next heading."""
        lines = self.prose.split("\n")
        for number, line in enumerate(lines, start=1):
            heading = _HEADING.match(line)
            if heading and heading.group(1).replace("`", "") == title:
                rest = lines[number:]
                until = next((at for at, text in enumerate(rest) if _HEADING.match(text)), len(rest))
                return Section(self.name, number, tuple(rest[:until]))
        return None

    def anchors(self) -> set[str]:
        """The anchors that GitHub gives the headings, and those that are written out."""
        seen: dict[str, int] = {}
        anchors = set(_ANCHOR.findall(self.prose))
        for line in self.prose.split("\n"):
            if match := _HEADING.match(line):
                slug = _slug(match.group(1))
                count = seen.get(slug, 0)
                seen[slug] = count + 1
                anchors.add(f"{slug}-{count}" if count else slug)
        return anchors

    def links(self) -> Iterator[Link]:
        """Links and images, wherever they point."""
        text = "\n".join(_without_spans(line) for line in self.prose.split("\n"))
        for match in _INLINE.finditer(text):
            alt = match.group(2) if match.group(1) else None
            yield Link(_line_of(text, match.start()), match.group(3), alt)
            for inner in _INLINE.finditer(match.group(2)):  # A picture that is itself a link.
                yield Link(_line_of(text, match.start()), inner.group(3), inner.group(2))
        for match in _DEFINITION.finditer(text):
            yield Link(_line_of(text, match.start()), match.group(1), None)
        for match in _HTML.finditer(text):
            alt = _ALT.search(match.group())
            is_image = match.group(1) == "img"
            yield Link(
                _line_of(text, match.start()), match.group(2), (alt.group(1) if alt else "") if is_image else None
            )


def pages_of(root: Path = ROOT) -> list[Page]:
    """README, CHANGELOG, CONTRIBUTING and SECURITY where they are, and every page below docs/."""
    named = [root / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    below = sorted((root / "docs").rglob("*.md"))
    return [read_page(path, root) for path in (*named, *below) if path.is_file()]


def read_page(path: Path, root: Path = ROOT) -> Page:
    prose: list[str] = []
    fences: list[Fence] = []
    code: list[str] | None = None  # The block that is open.
    ticks, language, first = "", "", 0
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        fence = _FENCE.match(line)
        if code is None and fence:
            code, ticks, language, first = [], fence.group(2), fence.group(3).strip(), number + 1
        elif code is not None and fence and len(fence.group(2)) >= len(ticks) and not fence.group(3).strip():
            fences.append(Fence(language, first, dedent("\n".join(code)) + "\n"))
            code = None
        elif code is not None:
            code.append(line)
        prose.append(line if code is None and not fence else "")
    return Page(path, path.relative_to(root).as_posix(), "\n".join(prose), tuple(fences))


def _slug(heading: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def _without_spans(line: str) -> str:
    """Code spans replaced by letters of the same length: what looks like a link in them is none."""
    return _SPAN.sub(lambda match: "x" * len(match.group()), line)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
