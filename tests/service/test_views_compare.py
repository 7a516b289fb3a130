"""Two executions compared: what both did in the same order, and what only one did."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from random import Random

import pytest
from view_sources import served

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.service.views import comparing
from beforehand.service.views.comparing import aligned


def steps(text: str) -> list[tuple[str, str]]:
    return [("local", letter) for letter in text]


def longest(a: str, b: str) -> int:
    """By trying all subsequences."""

    def has(text: str, wanted: tuple[str, ...]) -> bool:
        letters = iter(text)
        return all(letter in letters for letter in wanted)

    return max(size for size in range(len(a) + 1) if any(has(b, chosen) for chosen in combinations(a, size)))


@pytest.mark.parametrize("seed", range(30))
def test_an_alignment_is_a_longest_common_subsequence(seed: int) -> None:
    random = Random(seed)
    a, b = ("".join(random.choices("abcd", k=random.randint(0, 9))) for _ in range(2))
    pairs, exact = aligned(steps(a), steps(b))
    assert exact
    assert len(pairs) == longest(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


@pytest.mark.parametrize("seed", range(10))
def test_beyond_the_bound_an_alignment_is_still_right_and_says_that_it_may_lack_something(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "CELLS_MAX", 10)
    random = Random(seed)
    a, b = ("".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=60)) for _ in range(2))
    pairs, exact = aligned(steps(a), steps(b))
    assert not exact
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


def test_patience_holds_on_to_what_stands_once() -> None:
    a, b = "x" * 3_000 + "1" + "y" * 3_000 + "2", "z" * 3_000 + "1" + "w" * 3_000 + "2"
    pairs, _ = aligned(steps(a), steps(b))
    assert [a[i] for i, _ in pairs] == ["1", "2"]


def test_processes_are_compared_by_name(tmp_path: Path) -> None:
    def run(names: str, execution: str, process: str = "a") -> list[Event]:
        return [
            Event(execution=execution, process=process, index=at, name=name) for at, name in enumerate(names, start=1)
        ]

    made = [*run("startXend", "one"), *run("startYYend", "two"), *run("same", "one", "b"), *run("same", "two", "b")]
    with served("memory", made, tmp_path) as one:
        found = one.viewer.compare("one", "two")
        assert (found["first"]["events"], found["second"]["events"], found["same"]) == (13, 14, False)
        a, b = found["processes"]
        assert (a["common"], a["only_first_ids"], a["only_second_ids"]) == (8, ["one/a:6"], ["two/a:6", "two/a:7"])
        assert a["first_difference"] == {"first": "one/a:6", "second": "two/a:6"}
        assert (b["common"], b["only_first"], b["only_second"], b["first_difference"]) == (4, 0, 0, None)
        assert one.viewer.compare("one", "one")["same"]
        with pytest.raises(InputError, match="no execution"):
            one.viewer.compare("one", "three")


def test_sources_of_two_kinds_are_compared(tmp_path: Path) -> None:
    first = [Event(process="a", index=1, name="x"), Event(process="a", index=2, name="y")]
    second = [Event(process="a", index=1, name="x"), Event(process="c", index=1, name="z")]
    with served("store", first, tmp_path / "1") as store, served("memory", second, tmp_path / "2") as memory:
        found = store.viewer.compare("", "", memory.viewer)
        assert [process["name"] for process in found["processes"]] == ["a", "c"]
        assert found["processes"][0]["only_first_ids"] == ["a:2"]
        assert (found["processes"][1]["lane_first"], found["processes"][1]["lane_second"]) == (None, 1)
        assert found["processes"][1]["first_difference"] == {"first": None, "second": "c:1"}


def test_large_executions_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "EVENTS_MAX", 1)
    with (
        served("memory", [Event(process="a", index=1), Event(process="a", index=2)], tmp_path) as one,
        pytest.raises(InputError, match="at most 1 are compared"),
    ):
        one.viewer.compare("", "")
