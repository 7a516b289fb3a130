"""The table of which protocol keeps which order, as the explorer finds it, is what the docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from beforehand.ordering import PROTOCOLS
from beforehand.sim.explorer import Row, explorable, matrix
from beforehand.sim.explorer.page import matrix_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "ordering" / "property-matrix.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    chosen = [protocol for protocol in PROTOCOLS.values() if explorable(protocol)]
    return matrix(chosen, messages_max=3, messages_explored=1)


def test_no_promise_is_broken_and_every_no_has_a_confirmed_counterexample(rows: list[Row]) -> None:
    for row in rows:
        traits = PROTOCOLS[row.protocol].traits
        promised = {"fifo": traits.fifo, "causal": traits.causal, "total": traits.total}
        assert row.breaches == ()
        assert row.verdicts == {order: "yes" if kept else "no" for order, kept in promised.items()}
        assert set(row.counterexamples) == {order for order, kept in promised.items() if not kept}
        assert all(example.confirmed for example in row.counterexamples.values())


def test_the_page_says_what_the_explorer_finds(rows: list[Row]) -> None:
    assert matrix_page(rows) == PAGE.read_text(encoding="utf-8"), "run `make matrix`"
