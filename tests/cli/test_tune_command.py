"""`beforehand tune`: what it prints, its JSON document, its plot, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from beforehand.cli.command import main
from beforehand.cli.shop import shop_run
from beforehand.events import Event
from beforehand.history import History
from history_directories import make_pack_directory

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command as a user runs it, in this process: status, output, errors."""

    def one(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["beforehand", "tune", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        return status, *capfd.readouterr()

    return one


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pack_directory([shop_run(seed=1)], tmp_path_factory.mktemp("shop"), packs=2).path


def one_way(path: Path) -> Path:
    events = [
        Event(process="p", index=1, sends=("m",), time=0),
        Event(process="q\x1b[2J", index=1, receives=("m",), time=3_000_000),
    ]
    return make_pack_directory([events], path, packs=1).path


def document(run: Run, *arguments: str | Path) -> Any:
    status, out, _ = run(*arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_the_document_has_the_documented_keys_and_agrees_with_the_measures(run: Run, shop: Path) -> None:
    found = document(run, shop)

    measures = History(shop_run(seed=1)).measure()
    assert list(found) == ["messages", "refused_messages", "epsilon", "table", "recommended", "late", "notes"]
    assert found["messages"] == 54
    assert found["epsilon"] == {
        "needed_ns": measures.epsilon_min_ns,
        "sufficient_ns": measures.epsilon_max_ns,
        "given_ns": None,
    }
    assert found["recommended"] == {"epsilon_ns": 132_000_000, "delta_ns": 99_000_000, "tick_ns": 1_000_000}
    assert set(found["table"][0]) == {
        "delta_ns",
        "late",
        "late_messages",
        "latency_mean_ns",
        "latency_max_ns",
        "latency_bound_ns",
        "buffered_max",
        "buffered_process_max",
    }


def test_the_last_line_can_be_pasted_and_the_row_is_marked(run: Run, shop: Path) -> None:
    status, out, err = run(shop)

    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[-1].endswith(": beforehand merge --epsilon 132 --delta 99")
    (marked,) = [line for line in lines if line.startswith("=>")]
    assert marked.split()[:3] == ["=>", "99", "ms"]
    assert max(map(len, lines)) <= 100


def test_a_share_that_may_be_late_makes_delta_smaller(run: Run, shop: Path) -> None:
    found = document(run, shop, "--late", "0.1")

    (row,) = [row for row in found["table"] if row["delta_ns"] == found["recommended"]["delta_ns"]]
    assert found["recommended"]["delta_ns"] < 99_000_000
    assert 0 < row["late"] <= 0.1


def test_epsilon_and_delta_are_in_ticks_and_written_exactly(run: Run, shop: Path) -> None:
    _, out, _ = run(shop, "--tick", "0.25", "--epsilon", "130.1", "--delta", "7.6")

    assert re.search(r"--epsilon 130\.25 --delta \d+(\.25|\.5|\.75)?$", out)
    assert re.search(r"^ +7\.75 ms ", out, re.MULTILINE)


def test_with_all_late_there_are_no_waits_to_tell(run: Run, tmp_path: Path) -> None:
    path = one_way(tmp_path)

    _, out, _ = run(path, "--epsilon", "1", "--delta", "0")

    assert re.search(r"^ +0 ms +100 % +1 +– +– +3 ms +0 +0$", out, re.MULTILINE)


def test_an_epsilon_that_is_not_known_is_not_recommended(run: Run, tmp_path: Path) -> None:
    path = one_way(tmp_path)

    status, out, _ = run(path)

    assert status == 0
    assert out.splitlines()[-1].endswith("--delta 3; epsilon is not known")
    assert "beforehand merge" not in out
    assert "\x1b" not in out
    assert document(run, path)["recommended"]["epsilon_ns"] is None


def test_without_messages_the_answer_says_so(run: Run, tmp_path: Path) -> None:
    path = make_pack_directory([[Event(process="p", index=1)]], tmp_path, packs=1).path

    status, out, _ = run(path)

    assert status == 0
    assert "nothing can be recommended" in out
    assert "recommended, for" not in out
    assert document(run, path)["table"] == []
    status, _, err = run(path, "--to", tmp_path / "a.svg")
    assert (status, err.count("\n")) == (2, 1)
    assert not (tmp_path / "a.svg").exists()


def test_the_plot_has_a_panel_for_each_kind_of_cost(run: Run, shop: Path, tmp_path: Path) -> None:
    found = document(run, shop, "--to", tmp_path / "plot.svg")

    text = (tmp_path / "plot.svg").read_text()
    assert found["to"] == str(tmp_path / "plot.svg")
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    for words in ("would be late", "others wait", "wait at once", "δ = 99 ms is the smallest", "ε = 132 ms"):
        assert words in text
    rows = len(found["table"])
    assert text.count("<title>late: ") == text.count("<title>wait, longest: ") == rows


@pytest.mark.parametrize("options", [[], ["--epsilon", "1"], ["--epsilon", "1", "--delta", "0"]])
def test_what_is_not_known_is_not_drawn(options: list[str], run: Run, tmp_path: Path) -> None:
    status, _, err = run(one_way(tmp_path), *options, "--to", tmp_path / "plot.svg")

    assert status == 0
    assert err == f"wrote {tmp_path / 'plot.svg'}\n"
    assert ("others wait" in (tmp_path / "plot.svg").read_text()) == bool(options)


@pytest.mark.parametrize(
    "options",
    [
        ["--late", "2"],
        ["--late", "nan"],
        ["--tick", "0"],
        ["--tick", "inf"],
        ["--epsilon", "-1"],
        ["--epsilon", "nan"],
        ["--delta", "1e300"],
        ["--delta", "nan"],
        ["--delta", "1"] * 101,
        ["--to", "plot.png"],
        ["--execution", "none"],
    ],
    ids=" ".join,
)
def test_wrong_options_are_one_clear_line(options: list[str], run: Run, shop: Path) -> None:
    status, out, err = run(shop, *options)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "bug" not in err
