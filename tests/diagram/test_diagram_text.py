"""Cutting and measuring text."""

from __future__ import annotations

import pytest

from beforehand.diagram.text import cut, fit, natural_key, visible, width_of


def test_names_sort_as_people_count():
    names = ["P10", "P2", "P1", "P01", "Q", "P" + "9" * 5_000]

    assert sorted(names, key=natural_key) == ["P01", "P1", "P2", "P10", "P" + "9" * 5_000, "Q"]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("", 3, "")],
)
def test_cut_says_that_there_was_more(text: str, limit: int, expected: str):
    assert cut(text, limit) == expected


def test_fit_keeps_what_fits_and_drops_stumps():
    room = width_of("checkout", 11)

    assert fit("checkout", room, 11) == "checkout"
    assert fit("checkout clicked", room, 11) == "checko…"
    assert fit("checkout", 12, 11) == ""


def test_wide_characters_count_as_wide():
    assert width_of("日本", 10) > width_of("ab", 10)


def test_visible_is_a_single_line_of_limited_length():
    assert visible("a\r\nb" * 1_000, 10) == "a␍␊ba␍␊ba…"
