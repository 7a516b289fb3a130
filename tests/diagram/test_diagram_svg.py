"""The drawing as a document: well-formed, safe, complete, and the same every time."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.diagram import LayoutOptions, Marks, draw, layout, to_svg
from beforehand.events import Event, EventId

SVG = "{http://www.w3.org/2000/svg}"


def texts(document: str) -> list[str]:
    root = ElementTree.fromstring(document)
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def titles(document: str) -> list[str]:
    root = ElementTree.fromstring(document)
    return [element.text or "" for element in root.iter(f"{SVG}title")]


ONE = [Event(process="web", index=1, name="checkout", time=1_500_000_000, attributes={"order": "4711"})]
PAIR = [Event(process="A", index=1, sends=("m1",)), Event(process="B", index=1, receives=("m1",))]


def test_document_has_a_title_a_description_and_a_tooltip_per_event():
    document = draw(ONE, title="Shop")

    root = ElementTree.fromstring(document)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Shop"
    assert "1 event(s) on 1 process(es)" in (root.findtext(f"{SVG}desc") or "")
    assert "web:1 · local\ncheckout\n1970-01-01T00:00:01.5Z\norder: 4711" in titles(document)


def test_message_has_a_tooltip_and_a_head():
    document = draw(PAIR)

    assert "message m1\nA:1 → B:1" in titles(document)
    assert 'marker-end="url(#st-head)"' in document


def test_an_empty_execution_is_a_document_too():
    assert ElementTree.fromstring(draw([])).tag == f"{SVG}svg"


def test_markup_in_names_stays_text():
    hostile = '</text><script>alert("1")</script>]]>&amp;'
    events = [
        Event(process=hostile, index=1, name=hostile, sends=(hostile,), attributes={hostile: hostile}),
        Event(process="B", index=1, receives=(hostile,)),
    ]
    marks = Marks(notes={events[0].id: hostile})

    document = to_svg(layout(events, marks=marks), title=hostile, description=hostile)

    root = ElementTree.fromstring(document)
    assert not list(root.iter(f"{SVG}script"))
    assert root.findtext(f"{SVG}title") == hostile


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x00b", "a␀b"),  # NUL
        ("a\nb", "a␊b"),  # would break the line
        ("a\x85b", "a⟨U+0085⟩b"),  # C1 control
        ("a\ud800b", "a\ufffdb"),  # lone surrogate: not UTF-8
        ("a\uffffb", "a\ufffdb"),  # noncharacter: not XML 1.0
        ("a\u202eb", "a⟨U+202E⟩b"),  # right-to-left override
        ("a\u2066b", "a⟨U+2066⟩b"),  # isolate
        ("a\u200db", "a\u200db"),  # joiner: needed in emoji
        ("e" + "\u0301" * 9, "e" + "\u0301" * 3),  # stacked marks
    ],
)
def test_characters_that_cannot_be_shown_get_a_stand_in(name: str, shown: str):
    document = draw([Event(process="P", index=1, name=name)])

    assert shown in texts(document)


@given(st.text(st.characters(), min_size=1), st.text(st.characters()))
def test_any_text_gives_a_well_formed_document(process: str, name: str):
    event = Event(process=process, index=1, name=name, sends=(process,), attributes={name: name})

    document = to_svg(layout([event]), title=name, description=name)

    ElementTree.fromstring(document.encode())


def test_huge_names_are_cut_everywhere():
    huge = "x" * 10_000
    events = [Event(process=huge, index=1, name=huge, sends=(huge,), attributes={huge: huge})]

    assert len(draw(events, title=huge)) < 20_000


def test_cap_is_shown_in_the_drawing():
    events = [Event(process="A", index=index) for index in range(1, 11)]

    document = draw(events, options=LayoutOptions(events_max=4))

    assert "⚠ 6 of 10 events are not drawn." in texts(document)


def test_same_input_gives_the_same_bytes_with_one_decimal_at_most():
    events = [*PAIR, *ONE]

    assert draw(events) == draw(list(reversed(events)))
    assert not re.search(
        r"\d\.\d\d", re.sub(r"<style.*?</style>|<title.*?</title>", "", draw(events), flags=re.DOTALL)
    )


def test_legend_names_only_what_occurs():
    plain = texts(draw(PAIR))
    marked = texts(draw(PAIR, marks=Marks(selected=EventId("", "A", 1), past=(), future=[PAIR[1].id])))

    assert "selected event" not in plain
    assert [text for text in marked if text in ("selected event", "its past", "its future")] == [
        "selected event",
        "its future",
    ]


def test_signs_differ_without_colour():
    events = [Event(process="P", index=index) for index in range(1, 6)] + [Event(process="Q", index=1)]
    ids = [event.id for event in events]
    marks = Marks(selected=ids[1], past=ids[:1], future=ids[2:5], violations=ids[3:4], failures=ids[4:5])

    document = draw(events, marks=marks)

    assert 'class="half" d="M0 -6A6 6 0 0 0 0 6Z"' in document  # past: left half
    assert 'class="half" d="M0 -6A6 6 0 0 1 0 6Z"' in document  # future: right half
    assert 'class="ring"' in document  # selected
    assert 'class="dot" d="M0 -8.2L8.2 0L0 8.2L-8.2 0Z"' in document  # violation: diamond
    assert 'class="dot" d="M0 -8.6L8.6 6.2H-8.6Z"' in document  # failure: triangle
    assert ".concurrent .dot{stroke-width:1.4;stroke-dasharray" in document  # concurrent: dashed ring


def test_a_violating_message_carries_an_exclamation_mark():
    assert "!" in texts(draw(PAIR, marks=Marks(violating_messages=["m1"])))


def test_lost_messages_end_in_a_cross_and_unsent_ones_begin_with_a_question_mark():
    document = draw([Event(process="A", index=1, sends=("gone",), receives=("ghost",))])

    assert 'marker-end="url(#st-cross)"' in document
    assert "?" in texts(document)


def test_theme_auto_follows_the_reader_and_the_others_do_not():
    result = layout(PAIR)

    assert "prefers-color-scheme:dark" in to_svg(result)
    assert "prefers-color-scheme" not in to_svg(result, theme="dark")
    with pytest.raises(ValueError, match="pink"):
        to_svg(result, theme="pink")


def test_events_may_link_to_an_address():
    document = to_svg(layout(ONE), link=lambda event: f'/events?id={event}&x="1"')

    anchors = list(ElementTree.fromstring(document).iter(f"{SVG}a"))
    assert [anchor.get("{http://www.w3.org/1999/xlink}href") for anchor in anchors] == ['/events?id=web:1&x="1"']


def test_a_cut_and_notes_are_drawn():
    document = draw(PAIR, marks=Marks(cut={"A": 1}, notes={PAIR[1].id: "look here"}))

    assert 'class="front"' in document
    assert "B:1: look here" in texts(document)
