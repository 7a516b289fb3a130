"""Figures of a report as people read them: units, times, shares, bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.pipeline.report.charts import delay_chart, lateness_chart, merged, offset_bar, offset_scale
from beforehand.pipeline.report.text import duration_text, instant, share_text


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (999_600, "1 ms"),  # rounds up into the next unit
        (-80_908_674, "−80.9 ms"),
        (99_167_479, "99.2 ms"),
        (90_000_000_000, "90 s"),
        (600_000_000_000, "10 min"),
        (10**20, "1,160,000 d"),
    ],
)
def test_durations_have_three_digits_and_a_unit(nanoseconds: int, shown: str) -> None:
    assert duration_text(nanoseconds) == shown


@given(st.integers(-(10**25), 10**25))
def test_every_duration_has_a_short_text(nanoseconds: int) -> None:
    assert len(duration_text(nanoseconds)) < 24


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (10**29, "100000000000000000000000000000 ns"),  # beyond the calendar
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        (None, "no time"),
    ],
)
def test_times_are_rfc_3339_in_utc(time: object, shown: str) -> None:
    assert f">{shown}<" in instant(time)


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0 %"), (0.046296, "4.63 %"), (1e-9, "below 0.001 %"), (0.99996, "99.996 %"), (1, "100 %")],
)
def test_shares_do_not_round_to_nothing_or_all(share: float, shown: str) -> None:
    assert share_text(share) == shown


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), min_size=1, max_size=300))
def test_merged_bins_lose_no_count_and_keep_both_sides_of_zero(steps: list[tuple[int, int]]) -> None:
    bins = sorted((low, low + 1, number) for low, number in steps)

    kept = merged(bins, 10)

    assert len(kept) <= 10
    assert sum(one[2] for one in kept) == sum(one[2] for one in bins)
    assert not [one for one in kept if one[0] < 0 < one[1]]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), min_size=1, max_size=30))
def test_any_histogram_has_a_bar_for_every_filled_bin(steps: list[tuple[int, int]]) -> None:
    bins = sorted((low, low + 1, number) for low, number in steps)

    drawn = delay_chart([*bins, (10**13, 10**14, 1)])

    assert drawn.count("<rect") >= sum(1 for one in bins if one[2]) + 1
    assert "nan" not in drawn


@given(st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 1)), min_size=1, max_size=30))
def test_any_curve_has_a_dot_for_every_point_inside_the_picture(points: list[tuple[int, float]]) -> None:
    drawn = lateness_chart(points)

    assert drawn.count("<circle") == len(points)
    assert "nan" not in drawn


def test_a_long_stretch_without_delays_is_folded() -> None:
    assert "⋯" in delay_chart([(-100, -10, 4), *((low, low + 1, 0) for low in range(-10, 10)), (10, 100, 4)])
    assert "⋯" not in delay_chart([(1, 10, 4), (10, 100, 0), (100, 1_000, 4)])


def test_a_clock_that_is_bounded_on_one_side_runs_to_the_edge() -> None:
    scale = offset_scale([-100, 100, None])

    assert 'class="range open" x="0%"' in offset_bar(None, 50, scale, "at most 50 ns").replace("0.00%", "0%")
    assert "range" not in offset_bar(None, None, scale, "nothing bounds it")
