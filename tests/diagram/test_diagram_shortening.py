"""Names of lanes that are too long: what tells them apart stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beforehand.diagram import layout
from beforehand.diagram.shortening import Shortening
from beforehand.events import Event

THREADS = [
    "42795@hostThread[main,5,main]",
    "42795@hostThread[Thread-27,5,main]",
    "42795@hostThread[Thread-28,5,main]",
    "42795@hostThread[server-0,5,socket-server]",
]


def shortened(names: list[str], room: int) -> list[str]:
    short = Shortening(names, len)
    return [short.fit(name, room) for name in names]


def test_what_all_begin_with_and_half_end_with_is_left_out() -> None:
    assert shortened(THREADS, 16) == ["…main…", "…Thread-27…", "…Thread-28…", "…server-…server]"]


def test_words_that_all_begin_with_are_left_out_from_the_left_until_it_fits() -> None:
    assert shortened(["eu/shop/worker-1", "eu/shop/worker-2"], 15) == ["…shop/worker-1", "…shop/worker-2"]
    assert shortened(["eu/shop/worker-1", "eu/shop/worker-2"], 12) == ["…worker-1", "…worker-2"]


def test_a_name_that_fits_stays_whole() -> None:
    assert shortened(["shop/cart", "shop/payment"], 12) == ["shop/cart", "shop/payment"]


def test_the_end_of_one_name_is_common_to_nobody() -> None:
    assert shortened(["<script>document.title='broken'</script>", "b"], 16) == ["<script…/script>", "b"]


def test_the_number_at_the_end_stays() -> None:
    names = ["compose-post-service", "compose-post-service#2", "compose-post-service#3", "media"]

    assert shortened(names, 15) == ["compose…service", "compose…rvice#2", "compose…rvice#3", "media"]


def test_more_of_the_end_is_kept_where_two_share_both_halves() -> None:
    names = ["datamgmt@10.0.0.105", "datamgmt@10.1.0.105", "cart", "mail", "stock"]

    assert shortened(names, 11) == ["dat…0.0.105", "dat…1.0.105", "cart", "mail", "stock"]


def test_what_differs_in_the_middle_only_is_shown_from_there() -> None:
    names = ["a" * 20 + "1" + "b" * 20, "a" * 20 + "2" + "b" * 20]

    assert shortened(names, 11) == ["…aaaa1bbbb…", "…aaaa2bbbb…"]


def test_names_without_room_or_company_are_cut_too() -> None:
    assert shortened(["x" * 30], 5) == ["xx…xx"]
    assert shortened(["", "abcdefgh"], 1) == ["", "…"]


@given(st.lists(st.text("ab-#1", max_size=14), unique=True, max_size=7), st.integers(1, 16))
def test_nothing_is_wider_than_its_room_and_what_is_shown_whole_is_the_name(names: list[str], room: int) -> None:
    for name, shown in zip(names, shortened(names, room), strict=True):
        assert len(shown) <= max(room, 1)
        assert shown == name or "…" in shown
        parts = shown.split("…")
        assert all(part in name for part in parts)


def test_the_lanes_of_a_drawing_differ_and_the_tooltip_has_the_whole_name() -> None:
    drawn = layout([Event(process=name, index=1) for name in THREADS])

    labels = [lane.label for lane in drawn.lanes]
    assert sorted(labels) == ["…Thread-27…", "…Thread-28…", "…hostThread[main…", "…server-0…t-server]"]
    assert {lane.process for lane in drawn.lanes} == set(THREADS)
