"""Findings as a page of Markdown: what was claimed, what was seen, and the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from beforehand.sim.experiments.findings import Experiment, Findings, Table

__all__ = ["as_markdown"]


def as_markdown(experiment: Experiment, findings: Findings, *, pictures: Sequence[str] = ()) -> str:
    """The page; `pictures` are the names of files beside it."""
    lines = [
        f"# {experiment.title}",
        "",
        f"`beforehand experiment {experiment.name}`; source: {experiment.paper}.",
        "",
        f"{findings.state[:1].upper()}{findings.state[1:]}.",
        "",
        *_rows(
            ("claim", "here", "seen"),
            ([claim.text, "holds" if claim.holds else "does not hold", claim.seen] for claim in findings.claims),
        ),
        "",
    ]
    for table in findings.tables:
        lines += [f"## {table.title}", "", *_table(table), ""]
    lines += [f"![{experiment.title}]({name})\n" for name in pictures]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(table: Table) -> list[str]:
    return _rows(table.head, table.texts())


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
