"""ε and δ from history directories, against the definitions on the rows of their tables, read without our readers."""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.pipeline.stored import StoredHistory, scanning
from beforehand.pipeline.stored.tuning import Tuning, tune
from history_directories import Case, make_pack_directory, random_events, untidy

Row = dict[str, Any]


def rows_of(path: Path, folder: str) -> list[Row]:
    return [row for file in sorted((path / folder).rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def received(path: Path, execution: str | None = None) -> list[Row]:
    """The messages that count."""
    return [
        row
        for row in rows_of(path, "messages")
        if row["outcome"] == "received"
        and None not in (row["send_time"], row["receive_time"])
        and execution in (None, row["execution"])
    ]


def latest_readings(path: Path) -> dict[tuple[str, str, int], int | None]:
    """Per event the latest time in its past, itself included: passed on until nothing changes."""
    events = sorted(rows_of(path, "events"), key=lambda row: (row["execution"], row["process"], row["index"]))
    latest = {(row["execution"], row["process"], row["index"]): row["time"] for row in events}
    edges = [
        ((a["execution"], a["process"], a["index"]), (b["execution"], b["process"], b["index"]))
        for a, b in pairwise(events)
        if (a["execution"], a["process"]) == (b["execution"], b["process"])
    ]
    edges += [
        (
            (row["execution"], row["send_process"], row["send_index"]),
            (row["execution"], row["receive_process"], row["receive_index"]),
        )
        for row in rows_of(path, "messages")
        if row["outcome"] == "received"
    ]
    changed = True
    while changed:
        changed = False
        for cause, effect in edges:
            known = latest[cause]
            if known is not None and (latest[effect] is None or latest[effect] < known):
                latest[effect] = known
                changed = True
    return latest


def naive_epsilon(rows: list[Row]) -> tuple[int | None, int | None]:
    """ε from below and above, by shortest paths; the latter None if some two clocks are not bounded."""
    names = sorted({row[end] for row in rows for end in ("send_process", "receive_process")})
    far: dict[tuple[str, str], float] = {(p, q): 0 if p == q else math.inf for p, q in product(names, names)}
    for row in rows:
        pair = (row["send_process"], row["receive_process"])
        far[pair] = min(far[pair], row["receive_time"] - row["send_time"])
    for k, p, q in product(names, names, names):
        far[p, q] = min(far[p, q], far[p, k] + far[k, q])
    assert all(far[p, p] == 0 for p in names), "the clocks of these histories do not drift"
    most = max(far.values())
    return int(max(0, -min(far.values()))), int(most) if math.isfinite(most) else None


def check(tuning: Tuning, path: Path, execution: str | None = None) -> None:
    """Every figure of every δ, from the rows."""
    rows = received(path, execution)
    latest = latest_readings(path)
    assert tuning.messages == len(rows)
    epsilon = tuning.recommended_epsilon_ns
    for one in tuning.table:
        late = [row for row in rows if row["receive_time"] > row["send_time"] + one.delta_ns]
        assert (one.late_messages, one.late) == (len(late), len(late) / len(rows))
        if epsilon is None:
            assert (one.latency_mean_ns, one.latency_max_ns, one.buffered_max) == (None, None, None)
            continue
        waiting = []
        for row in rows:
            arrival, sent = row["receive_time"], row["send_time"]
            if sent - epsilon <= arrival <= sent + one.delta_ns:
                known = latest[row["execution"], row["send_process"], row["send_index"]]
                assert known is not None
                due = sent + min(known - sent, epsilon) + one.delta_ns + epsilon
                waiting.append((arrival, due, row["receive_process"]))
        waits = [due - arrival for arrival, due, _ in waiting]
        assert one.latency_mean_ns == (round(sum(waits) / len(waits)) if waits else None)
        assert one.latency_max_ns == max(waits, default=None)
        now = {arrival for arrival, _, _ in waiting}
        at_once = [sum(a <= instant < d for a, d, _ in waiting) for instant in now]
        assert one.buffered_max == max(at_once, default=0)
        alone = [
            sum(a <= instant < d for a, d, p in waiting if p == process)
            for instant, process in {(a, p) for a, _, p in waiting}
        ]
        assert one.buffered_process_max == max(alone, default=0)


def tuned(path: Path, **options: Any) -> Tuning:
    return tune(StoredHistory.open(path), **{"tick_ns": 10, **options})


@pytest.mark.parametrize("seed", range(8))
def test_figures_of_random_histories_are_those_of_the_definitions(seed: int, tmp_path: Path) -> None:
    events = random_events(seed, processes=2 + seed % 4, steps=150, skew_ns=1_000 * seed, untimed=0.1 * (seed % 2))
    path = make_pack_directory([events], tmp_path, packs=2).path

    found = tuned(path, deltas_ns=[0, 77])

    needed, sufficient = naive_epsilon(received(path))
    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (needed, sufficient)
    assert found.recommended_epsilon_ns == (None if sufficient is None else -(-sufficient // 10) * 10)
    assert found.refused_messages == (None if sufficient is None else 0)
    assert {0, 80, found.recommended_delta_ns} <= {one.delta_ns for one in found.table}
    check(found, path)
    for epsilon in (0, 700, 50_000):
        given = tuned(path, epsilon_ns=epsilon, late=0.05)
        early = sum(row["receive_time"] < row["send_time"] - epsilon for row in received(path))
        assert given.refused_messages == early
        assert (given.epsilon.needed_ns, given.epsilon.given_ns) == (needed, epsilon)
        check(given, path)


def test_some_random_histories_have_stamps_that_are_ahead_and_bounds_on_both_sides(tmp_path: Path) -> None:
    """Otherwise the test above would show little."""
    events = random_events(3, processes=5, steps=150, skew_ns=3_000)
    path = make_pack_directory([events], tmp_path, packs=2).path
    latest = latest_readings(path)

    ahead = [
        latest[row["execution"], row["send_process"], row["send_index"]] > row["send_time"] for row in received(path)
    ]

    assert sum(ahead) > 10
    assert tuned(path).epsilon.sufficient_ns is not None


def test_blocks_of_a_large_execution_give_the_same_as_the_definitions(cut_cases: dict[str, Case]) -> None:
    path = cut_cases["blocks"].path

    found = tuned(path)

    assert found.epsilon.sufficient_ns is not None
    check(found, path)


def test_untidy_executions_are_taken_together_or_one_by_one(tmp_path: Path) -> None:
    executions = [
        random_events(1, processes=3, steps=80, execution="a"),
        untidy(random_events(2, processes=3, steps=80, execution="b"), 5),
    ]
    path = make_pack_directory(executions, tmp_path, packs=2).path

    both, one = tuned(path, epsilon_ns=300), tuned(path, epsilon_ns=300, execution="b")

    check(both, path)
    check(one, path, "b")
    assert both.messages > one.messages
    assert any("2 executions are taken together" in note for note in both.notes)
    assert not any("taken together" in note for note in one.notes)
    with pytest.raises(InputError, match="no execution 'c'"):
        tuned(path, execution="c")


def test_inferred_messages_count_and_are_noted(tmp_path: Path) -> None:
    path = make_pack_directory([random_events(4, processes=3, steps=150)], tmp_path, packs=1).path
    inferred = sum(row["inferred"] for row in received(path))

    found = tuned(path)

    assert inferred > 0
    assert any(note.startswith(f"{inferred} of {found.messages} messages were inferred") for note in found.notes)


def exchange(path: Path, *messages: tuple[str, int | None, str, int | None]) -> Path:
    """A directory of messages: from whom and at what time, to whom and at what time."""
    counts: dict[str, int] = {}
    events = []
    for number, (sender, sent, receiver, arrival) in enumerate(messages):
        for process, time, ends in ((sender, sent, "sends"), (receiver, arrival, "receives")):
            counts[process] = counts.get(process, 0) + 1
            events.append(Event(process=process, index=counts[process], time=time, **{ends: (f"m{number}",)}))  # type: ignore[arg-type]
    return make_pack_directory([events], path, packs=1).path


def test_offsets_bound_epsilon_from_both_sides(tmp_path: Path) -> None:
    # q is ahead by 40 at least (the answer arrives 40 before it was sent) and by 60 at most.
    path = exchange(tmp_path, ("p", 100, "q", 160), ("q", 200, "p", 160))

    found = tuned(path)

    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (40, 60)
    assert (found.recommended_epsilon_ns, found.recommended_delta_ns) == (60, 60)


def test_one_way_traffic_bounds_epsilon_from_below_only(tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 100, "q", 93), ("p", 200, "q", 210))

    found = tuned(path)

    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (7, None)
    assert (found.recommended_epsilon_ns, found.recommended_delta_ns) == (None, 10)
    assert found.table[-1].buffered_max is None
    assert any("from q to p" in note and "the clock of p" in note for note in found.notes)
    assert any("--epsilon" in note for note in found.notes)
    assert tuned(path, epsilon_ns=25).recommended_epsilon_ns == 30


def test_a_clock_that_drifts_leaves_epsilon_open_but_for_what_was_seen(tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 100, "q", 50), ("q", 200, "p", 180))

    found = tuned(path)

    # No constant offsets fit. Yet when q read 50, p read 100 or more.
    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (50, None)
    assert found.recommended_epsilon_ns is None
    assert any("drifted" in note for note in found.notes)


def test_one_process_needs_no_epsilon(tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 100, "p", 101), ("p", 110, "p", 113))

    found = tuned(path, tick_ns=1)

    assert (found.epsilon.needed_ns, found.recommended_epsilon_ns, found.recommended_delta_ns) == (0, 0, 3)
    check(found, path)


def test_a_clock_that_was_set_back_proves_nothing_about_two_clocks(tmp_path: Path) -> None:
    found = tuned(exchange(tmp_path, ("p", 100, "p", 40)))

    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (0, None)
    assert any("drifted" in note for note in found.notes)


def test_all_delays_negative_need_no_delta(tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 100, "q", 50), ("q", 60, "p", 110))

    found = tuned(path, late=0.5)

    assert found.recommended_delta_ns == 0
    check(found, path)


def test_an_epsilon_that_is_too_small_is_noted(tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 100, "q", 50), ("q", 60, "p", 115))

    found = tuned(path, epsilon_ns=10)

    assert found.refused_messages == 1
    assert any("too small" in note for note in found.notes)
    assert any("1 messages were sent more than ε after they arrived" in note for note in found.notes)
    assert all(one.buffered_max in (0, 1) for one in found.table)


@pytest.mark.parametrize(
    ("sent", "arrival"),
    [(None, 5), (5, None), (2**62, 5), (-(2**61), 5), (-(2**63) + 1, 2**63 - 1)],
    ids=["no send time", "no arrival time", "too late a time", "too long a delay", "beyond 64 bits"],
)
def test_without_usable_times_nothing_is_recommended(sent: int | None, arrival: int | None, tmp_path: Path) -> None:
    nothing_found(exchange(tmp_path, ("p", sent, "q", arrival)))


def test_without_messages_nothing_is_recommended(tmp_path: Path) -> None:
    events = [Event(process="p", index=1, time=5), Event(process="q", index=1, time=5)]
    nothing_found(make_pack_directory([events], tmp_path, packs=1).path)


def nothing_found(path: Path) -> None:
    found = tuned(path)

    assert (found.messages, found.refused_messages, found.table) == (0, None, ())
    assert (found.recommended_epsilon_ns, found.recommended_delta_ns) == (None, None)
    assert (found.epsilon.needed_ns, found.epsilon.sufficient_ns) == (None, None)
    assert any("nothing can be recommended" in note for note in found.notes)


def test_a_directory_without_any_event_is_answered(tmp_path: Path) -> None:
    path = make_pack_directory([], tmp_path, packs=1).path
    for file in (path / "messages").rglob("*.parquet"):
        file.unlink()

    assert tuned(path).messages == 0


def test_times_of_56_years_ago_leave_epsilon_open(tmp_path: Path) -> None:
    now = 1_790_000_000_000_000_000
    path = exchange(tmp_path, ("p", 0, "q", now), ("q", now + 5, "p", 9))

    found = tuned(path, tick_ns=1_000_000)

    assert found.recommended_epsilon_ns is None
    assert found.recommended_delta_ns is not None
    assert any("18 years" in note for note in found.notes)


def test_a_table_that_does_not_fit_in_memory_is_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_pack_directory([random_events(3, processes=5, steps=150)], tmp_path, packs=2).path
    plain = tuned(path)
    monkeypatch.setattr(scanning, "MEMORY_MAX", "40MB")
    monkeypatch.setattr(scanning, "ARROW_ROWS", 7)

    assert tuned(path) == plain


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    history = StoredHistory.open(exchange(tmp_path, ("p", 1, "q", 2), ("q", 3, "p", 4)))

    assert tune(history).table

    assert list(history.scanner.rows("SELECT count(*) FROM duckdb_tables()")) == [(0,)]
    assert not list(scratch.glob("beforehand-tune-*"))


@pytest.mark.parametrize(
    "options", [{"late": -0.1}, {"tick_ns": 0}, {"epsilon_ns": -1}, {"deltas_ns": [-1]}, {"deltas_ns": [10**18]}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    path = exchange(tmp_path, ("p", 1, "q", 2))
    with pytest.raises(ValueError, match="from"):
        tuned(path, **options)
