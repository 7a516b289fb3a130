"""The diagram page as a document: whole, safe, honest about what it leaves out, and right about what led to what."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beforehand.cli.shop import shop_run
from beforehand.diagram import LayoutOptions, Marks, diagram_page
from beforehand.diagram.page.sources import drawn_frame
from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.history import History
from html_pages import Page
from random_histories import as_events, pasts, random_steps


def check_page(document: str) -> Page:
    """What every page must keep, whatever the events say."""
    document.encode()
    # The frame is ours alone, the same in every page, and inert until our script takes it.
    before, frame, after = document.partition(drawn_frame())
    assert frame
    assert drawn_frame() not in after
    page = Page(before + after)
    assert max(page.ids.values()) == 1, [one for one, times in page.ids.items() if times > 1]
    assert page.addresses == []
    assert not {name for name in page.names if name.startswith("on") or name == "style"}
    assert page.elements["script"] == 2  # The data and the program.
    block = after.partition('id="data">')[2].partition("</script>\n")[0]
    assert json.loads(block) == page.data
    assert not set("<>&") & set(block)  # Not every way to end a script is known to this parser.
    assert page.elements["style"] == 1
    foreign = {"iframe", "object", "embed", "img", "link", "base", "audio", "video", "image", "foreignobject"}
    assert not foreign & page.elements.keys()
    assert not re.findall(r"url\((?!#)|@import|(?:src|href)=[\"']?(?:https?:)?//", document)
    return page


PAIR = [Event(process="A", index=1, sends=("m",)), Event(process="B", index=1, receives=("m",), name="got it")]
LOCALS = [Event(process="A", index=index, name=f"step {index}") for index in range(1, 11)]


def ids_on_page(page: Page) -> list[str]:
    """The events of the page, as it names them."""
    return [f"{page.data['processes'][one['owner']]}:{one['index']}" for one in page.data["events"]]


def read(document: str) -> Page:
    """A page without the frame that all have."""
    return Page(document.replace(drawn_frame(), ""))


def pasts_on_page(page: Page, view: int = 0) -> dict[str, set[str]]:
    """The past of every event as the page's search will find it."""
    numbers = page.data["views"][view]
    places = numbers["places"]
    assert isinstance(places, list)
    named = ids_on_page(page)
    ids = [named[place["event"]] for place in places]
    found_of: dict[str, set[str]] = {}
    for start, identity in enumerate(ids):
        found: set[int] = set()
        waiting = [start]
        while waiting:
            for cause in places[waiting.pop()]["causes"]:
                if cause not in found:
                    found.add(cause)
                    waiting.append(cause)
        found_of[str(identity)] = {str(ids[at]) for at in found}
    return found_of


def test_a_page_has_the_drawing_the_search_and_the_data() -> None:
    document = diagram_page(PAIR, title="Two processes")
    page = check_page(document)

    frame = Page(drawn_frame())
    assert {"search", "next", "previous", "in", "out", "fit", "details", "stage", "cut-slider"} <= frame.ids.keys()
    assert max(frame.ids.values()) == 1
    assert page.elements["svg"] >= 1
    assert "Two processes" in page.texts
    assert ids_on_page(page) == ["A:1", "B:1"]


def test_an_empty_execution_is_a_page_too() -> None:
    page = check_page(diagram_page([]))

    assert page.data["events"] == []


def test_wrong_input_is_refused_as_by_the_layout() -> None:
    with pytest.raises(InputError, match="given twice"):
        diagram_page([PAIR[0], PAIR[0]])


def test_same_events_give_the_same_bytes() -> None:
    assert diagram_page(PAIR) == diagram_page(PAIR[::-1])


def test_the_panel_gets_everything_that_the_event_has() -> None:
    event = Event(process="A", index=1, name="x", time=1_500_000_000, attributes={"b": "2", "a": "1"}, sends=("m",))

    (record,) = check_page(diagram_page([event])).data["events"]

    assert record["time"] == "1970-01-01T00:00:01.5Z"
    assert record["attributes"] == [["a", "1"], ["b", "2"]]
    assert record["sends"] == [{"message": "m", "events": [], "more": 0, "elsewhere": 0}]


def test_messages_name_the_events_at_their_other_end() -> None:
    send, receive = check_page(diagram_page(PAIR)).data["events"]

    assert send["sends"] == [{"message": "m", "events": [1], "more": 0, "elsewhere": 0}]
    assert receive["receives"] == [{"message": "m", "events": [0], "more": 0, "elsewhere": 0}]


def test_receivers_beyond_fifty_and_those_not_drawn_are_counted_apart() -> None:
    many = [PAIR[0], *(Event(process=f"B{number}", index=1, receives=("m",)) for number in range(60))]

    (every,) = check_page(diagram_page(many)).data["events"][0]["sends"]
    (few,) = check_page(diagram_page(many, options=LayoutOptions(events_max=31))).data["events"][0]["sends"]

    assert (len(every["events"]), every["more"], every["elsewhere"]) == (50, 10, 0)
    assert (len(few["events"]), few["more"], few["elsewhere"]) == (30, 0, 30)


def test_the_cap_is_said_on_the_page_and_is_two_thousand_by_default() -> None:
    many = [Event(process="A", index=index, sends=(f"m{index}",)) for index in range(1, 2_003)]

    page = check_page(diagram_page(many))

    assert "⚠ 2 of 2,002 events are not drawn." in page.texts
    assert len(page.data["events"]) == 2_000


def test_runs_of_local_events_come_as_a_second_drawing() -> None:
    page = check_page(diagram_page(LOCALS))

    assert [view["name"] for view in page.data["views"]] == ["whole", "folded"]
    assert [place["run"]["count"] for place in page.data["views"][1]["places"]] == [10]


def test_what_was_asked_for_is_shown_first() -> None:
    page = check_page(diagram_page(LOCALS, options=LayoutOptions(collapse_local=2)))

    assert [view["name"] for view in page.data["views"]] == ["folded", "whole"]


def test_without_runs_there_is_nothing_to_fold() -> None:
    page = check_page(diagram_page(PAIR))

    assert len(page.data["views"]) == 1


def test_a_second_drawing_that_is_too_large_is_left_out_and_the_page_says_so() -> None:
    many = [Event(process="A", index=index) for index in range(1, 4_101)]

    page = check_page(diagram_page(many, options=LayoutOptions(collapse_local=5, events_max=10_000)))

    assert len(page.data["views"]) == 1
    assert "⚠ Too large to hold a second drawing with runs of local events unfolded." in page.texts


def test_the_axis_that_was_asked_for_comes_first_and_falls_back_where_there_is_no_time() -> None:
    timed = [Event(process="A", index=1, time=7)]

    asked = check_page(diagram_page(timed, options=LayoutOptions(axis="clocks"))).data
    without = check_page(diagram_page(PAIR, options=LayoutOptions(axis="clocks"))).data

    assert (asked["axis"], list(asked["axes"])) == ("clocks", ["steps", "time", "clocks"])
    assert (without["axis"], list(without["axes"])) == ("steps", ["steps"])


def test_places_fit_into_the_numbers_of_a_browser_however_long_the_execution_is() -> None:
    events = [Event(process="A", index=1, time=-(2**62)), Event(process="A", index=2, time=2**62)]

    data = check_page(diagram_page(events)).data

    first, last = data["views"][0]["places"]
    assert data["axes"]["time"]["origin"] == str(-(2**62))
    for axis in ("time", "clocks"):
        assert first[axis] == 0
        assert 2**52 < last[axis] < 2**53
        assert last[axis] * data["axes"][axis]["unit"] <= 2**63


# What led to what.


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 50))
def test_the_past_on_the_page_is_the_true_past_among_drawn_events(seed: int, events_max: int) -> None:
    random = Random(seed)
    steps = random_steps(random, processes=4, steps=40)
    events = as_events(steps)
    # What is drawn are the surroundings of these three, so ways between them lead through what is not.
    marks = Marks(violations=[event.id for event in random.sample(events, 3)])
    ids = [str(event.id) for event in events]
    true = dict(zip(ids, pasts(steps), strict=True))

    page = read(diagram_page(events, marks=marks, options=LayoutOptions(events_max=events_max)))

    found = pasts_on_page(page)
    assert len(found) == min(events_max, 40)
    for event, past in found.items():
        assert past == {ids[at] for at in range(40) if true[event] >> at & 1} & found.keys()


def test_the_shop_has_its_failure_with_all_that_led_to_it() -> None:
    history = History(shop_run(seed=1))

    found = pasts_on_page(read(diagram_page(history.order())))

    assert found["orders:17"] == {str(event.id) for event in history.past("orders:17")}


def test_relations_add_what_leads_outside_of_what_is_given() -> None:
    apart = [Event(process="A", index=1), Event(process="B", index=1), Event(process="C", index=1)]

    page = read(diagram_page(apart, relations={apart[1].id: [apart[0].id, EventId("", "Z", 9)]}))

    assert pasts_on_page(page) == {"A:1": set(), "B:1": {"A:1"}, "C:1": set()}


def test_the_past_and_future_that_the_marks_give_are_kept() -> None:
    apart = [Event(process=name, index=1) for name in "ABC"]
    marks = Marks(selected=apart[1].id, past=[apart[0].id], future=[apart[2].id])

    found = pasts_on_page(read(diagram_page(apart, marks=marks)))

    assert found == {"A:1": set(), "B:1": {"A:1"}, "C:1": {"A:1", "B:1"}}


def test_in_a_causal_cycle_no_event_comes_before_itself() -> None:
    events = [
        Event(process="A", index=1, receives=("n",)),
        Event(process="A", index=2, sends=("m",)),
        Event(process="B", index=1, receives=("m",)),
        Event(process="B", index=2, sends=("n",)),
    ]

    found = pasts_on_page(check_page(diagram_page(events)))

    assert len(found) == 4
    assert not [event for event, past in found.items() if event in past]


# Text from strangers.

HOSTILE = st.one_of(
    st.sampled_from(
        [
            "</script><script>alert(1)</script>",
            "</script ><b ",
            "<!--<script ",
            '"><img src=x onerror=alert(1)>',
            "' onmouseover='alert(1)",
            '<a xlink:href="#0">',
            '</title><circle class="dot" r="6"/>',
            "</title></style></svg><b>",
            "<!-- ",
            "]]>",
            "a\u2028b\u2029c",
            "\u202eevil\u2066",
            "\ud800",
            "\x00\x1b[31m",
            "\uffff",
        ]
    ),
    st.text(st.characters(), min_size=1, max_size=30),
)
FORM = read(diagram_page([*PAIR, *(Event(process="C", index=index) for index in range(1, 9))]))


@settings(max_examples=80)
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_in_any_field_becomes_markup(process: str, name: str, message: str, key: str, title: str) -> None:
    events = [
        Event(process=process, index=1, name=name, sends=(message,), attributes={key: name}),
        Event(process=f"{process}2", index=1, name=name, receives=(message,), attributes={name: key}),
        *(Event(process=process, index=index, name=name) for index in range(2, 8)),
    ]
    marks = Marks(selected=events[0].id, notes={events[1].id: name}, violating_messages=[message])

    document = diagram_page(events, marks=marks, title=title)
    page = check_page(document)

    assert page.elements.keys() - FORM.elements.keys() <= {"circle", "rect", "path"}
    assert [script for script in page.scripts if not script.startswith("{")][1:] == [
        script for script in FORM.scripts if not script.startswith("{")
    ][1:]
    assert not re.search("[\u2028\u2029\u202a-\u202e\u2066-\u2069\x00-\x08]", document)


def test_two_processes_that_look_alike_stay_apart() -> None:
    alike = [Event(process="a\ufffd", index=1), Event(process="a\ud800", index=1)]

    page = check_page(diagram_page(alike))
    first, second = page.data["events"]

    assert page.data["processes"] == ["a\ufffd", "a\ufffd (2)"]
    assert first["owner"] != second["owner"]


def test_huge_texts_are_cut() -> None:
    huge = "x" * 100_000
    event = Event(process=huge, index=1, name=huge, sends=(huge,), attributes={huge: huge})

    assert len(diagram_page([event], title=huge)) < len(diagram_page(PAIR)) + 20_000


def test_the_policy_allows_our_own_style_and_script_only() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', diagram_page(PAIR))

    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
