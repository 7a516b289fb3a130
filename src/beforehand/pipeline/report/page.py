"""`report.json` as a page for people: one self-contained HTML file.

1. It needs nothing but itself: no network, no fonts, no scripts from elsewhere; it opens from a disk.
2. All text is escaped, in whatever field it stands; markup comes from our code and from drawings by
   `beforehand.diagram` only.
3. Any key may be absent, null or of an unexpected type: the page then says that it does not know, and why if a note
   does. It never fails.
4. Long lists are cut, and the page says how many more there are and where.

Pure: no file but our own style sheet and script is read, and neither Spark nor DuckDB is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from beforehand.diagram.page.document import Drawings, asset, document, json_block
from beforehand.diagram.page.figure import Figure
from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.diagram.page.sources import drawn_frame, drawn_script, drawn_style
from beforehand.pipeline.report.figures import cards, clocks_section, delays_section, synchrony_section
from beforehand.pipeline.report.findings import (
    Verdict,
    failures_section,
    hidden_section,
    verdict_of,
    violations_section,
)
from beforehand.pipeline.report.parts import Picture, Section
from beforehand.pipeline.report.tables import (
    inputs_section,
    notes_section,
    processes_section,
    rejected_section,
    timings_section,
)
from beforehand.pipeline.report.text import string_of

__all__ = ["report_page"]


def report_page(report: Mapping[str, object], pictures: Mapping[str, Figure]) -> str:
    """The page of a report.

    `pictures` has a diagram by `beforehand.diagram` for an item: "failure:0" for the first of `failures`,
    "violation:0" for the first of `witnesses`. Each can be explored, by the modules that draw the service's page.
    """
    drawings = Drawings()
    drawn = {key: Picture(made, drawings.take(made.svg)) for key, made in pictures.items()}
    verdict = verdict_of(report)
    optional = [
        failures_section(report, drawn),
        violations_section(report, drawn),
        clocks_section(report),
        synchrony_section(report),
        delays_section(report),
        hidden_section(report),
        processes_section(report),
        rejected_section(report),
        notes_section(report),
        inputs_section(report),
        timings_section(report),
    ]
    sections = [section for section in optional if section is not None]
    version = string_of(report.get("version"))
    footer = element(
        "footer",
        element("p", "Written by Beforehand" + (f" {version}" if version else "") + ". "),
        element(
            "p",
            "Order here is causal: what could have influenced what, by the messages. It says nothing about causes "
            "that travelled outside them.",
        ),
    )
    main = element("main", _summary(report), *(section.written() for section in sections), id="content")
    body = [
        element("a", "Skip to the findings", href="#failures", class_="skip"),
        drawings.definitions,
        _header(verdict),
        _contents(sections),
        main,
        footer,
    ]
    style = asset("beforehand.pipeline.report", "page.css") + drawings.style
    script = asset("beforehand.pipeline.report", "page.js")
    if pictures:
        body += [drawn_frame(), json_block("data", {key: made.data for key, made in pictures.items()})]
        script += drawn_script()
    return document(
        title=f"{verdict.sign} {verdict.headline}",
        description=verdict.headline,
        style=style,
        inner_style=drawn_style() if pictures else "",
        script=script,
        body=body,
    )


def _header(verdict: Verdict) -> Markup:
    badge = element("p", element("span", verdict.sign, aria_hidden="true"), f" {verdict.word}", class_="badge")
    facts = element("ul", *(element("li", fact) for fact in verdict.facts)) if verdict.facts else Markup()
    inner = element("div", badge, element("h1", verdict.headline), facts, class_="inner")
    return element("header", inner, class_=f"verdict {verdict.level}")


def _contents(sections: list[Section]) -> Markup:
    links = [
        element(
            "li",
            element(
                "a",
                section.title,
                joined([" ", element("span", section.badge, class_="count")]) if section.badge else "",
                href=f"#{section.id}",
            ),
        )
        for section in sections
    ]
    return element("nav", element("ul", *links), aria_label="Contents")


def _summary(report: Mapping[str, object]) -> Markup:
    heading = element("h2", "What was analysed", id="summary-title", class_="spoken")
    return element("section", heading, cards(report), id="summary", aria_labelledby="summary-title")
