"""Who is measured beside us gives the same stamps and pasts as we do."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.history import random_events
from benchmarks.past import report
from benchmarks.pipeline_data import make_history
from benchmarks.report import Figure
from benchmarks.rivals import RIVALS, graph_of, installed, last_of, read_graph

from beforehand.history import History

EVENTS = random_events(400, 6)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_stamps_and_finds_pasts_as_a_history_does(name: str) -> None:
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    history, graph = History(EVENTS), graph_of(EVENTS)
    rival = RIVALS[name](graph)
    assert np.array_equal(rival.stamps(), history.stamps[[history._row(event) for event in EVENTS]])
    for number in (0, 200, 399):
        past = {str(EVENTS[other].id) for other in rival.past(number)}
        assert past == {str(event.id) for event in history.past(EVENTS[number])}


def test_the_last_of_a_past_are_the_newest() -> None:
    graph = graph_of(EVENTS)
    assert last_of(graph, [5, 300, 17, 8], 2) == [300, 17]


def test_a_graph_read_from_files_is_the_one_of_the_events(tmp_path: Path) -> None:
    make_history(tmp_path, events=500, processes=5)
    graph, names = read_graph(tmp_path)
    assert (len(graph), graph.processes, len(names)) == (500, 5, 5)
    backwards = graph.edges[:, 0] >= graph.edges[:, 1]  # The files are in the order of true time.
    assert not backwards.any()
    steps = graph.process[graph.edges[:, 0]] == graph.process[graph.edges[:, 1]]
    assert steps.sum() >= 495


def test_the_comparison_has_a_row_for_each_way_and_size() -> None:
    table = report([200]).table("past")
    assert table is not None
    assert [row.name for row in table.rows] == [(name, "200") for name in ("**History**", *RIVALS)]
    ours = table.figure(("**History**", "200"), "past, ms")
    assert isinstance(ours, Figure)
    assert ours.ratio is None
