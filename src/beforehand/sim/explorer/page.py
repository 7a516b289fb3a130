"""The property matrix as a page of the docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beforehand.ordering import PROTOCOLS
from beforehand.sim.explorer.matrix import Row

__all__ = ["matrix_page"]

_ORDERS = ("fifo", "causal", "total")


def matrix_page(rows: Iterable[Row]) -> str:
    """The table, and under it each "no" with its smallest counterexample."""
    return "\n".join(_lines(list(rows)))


def _lines(rows: list[Row]) -> Iterator[str]:
    yield "# Which protocol keeps which order"
    yield ""
    yield "This page is made by the explorer (`make matrix`), and a test fails when it no longer says what that"
    yield "finds. A *yes* is promised and has survived all explorations and campaigns ([how far they"
    yield "went](../explorer.md)); a *no* links to the smallest run that breaks the order: of those with the fewest"
    yield "messages one with the fewest steps, at three processes."
    yield ""
    yield "| protocol | FIFO | causal | total |"
    yield "|---|---|---|---|"
    for row in rows:
        cells = [_cell(row, order) for order in _ORDERS]
        yield f"| [`{row.protocol}`]({row.protocol}.md) | {' | '.join(cells)} |"
    explored = {row.protocol for row in rows}
    for name, protocol in PROTOCOLS.items():
        if name not in explored:
            traits = protocol.traits
            kept = ("yes*" if promised else "no" for promised in (traits.fifo, traits.causal, traits.total))
            yield f"| [`{name}`]({name}.md) | {' | '.join(kept)} |"
    yield ""
    yield "\\* The explorer has no clocks to read. `timed-delivery` is explored apart, [with"
    yield "clocks](../explorer.md#with-clocks); `causal-merge` is judged by the simulator's campaigns alone."
    yield "`independent-sends` gives up the order of a process's own sends on purpose: what it keeps is causal order"
    yield "over the dependencies that the application declares."
    yield ""
    for row in rows:
        for order, example in row.counterexamples.items():
            yield f"## {row.protocol}, {order}"
            yield ""
            yield f"{example.why}."
            yield ""
            yield "```text"
            yield from (line.rstrip() for line in example.text().splitlines()[1:])
            yield "```"
            yield ""


def _cell(row: Row, order: str) -> str:
    verdict = row.verdicts[order]
    return f"[no](#{row.protocol}-{order})" if order in row.counterexamples else verdict
