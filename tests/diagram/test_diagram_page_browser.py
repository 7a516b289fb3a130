"""A drawn file in a real browser, from the disk, without a network: choosing, search, zoom, folding, cuts, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.shop import shop_run
from beforehand.diagram import LayoutOptions, Marks, diagram_page
from beforehand.events import Event
from beforehand.history import History
from drawn_pages import Diagram, Reader, launched

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HOSTILE = '</script><img src=x onerror="document.title=1">'
MILLISECOND = 1_000_000
WORK = [
    Event(process="A", index=1, name="ask", sends=("m",), attributes={"order": "4711"}),
    *(Event(process="A", index=index, name=f"think {index}") for index in range(2, 9)),
    Event(process="B", index=1, name=HOSTILE, receives=("m",), attributes={HOSTILE: HOSTILE}),
    Event(process="B", index=2, name="answer", sends=("n",)),
    Event(process="A", index=9, name="done", receives=("n",)),
    Event(process="C", index=1, name="apart", time=1_500_000_000),
]
TIMED = [
    Event(process="A", index=1, name="ask", sends=("m",), time=1 * MILLISECOND),
    Event(process="B", index=1, name="asked", receives=("m",), time=3 * MILLISECOND),
    Event(process="B", index=2, name="answer", sends=("n",), time=4 * MILLISECOND),
    Event(process="A", index=2, name="done", receives=("n",), time=9 * MILLISECOND),
    Event(process="C", index=1, name="lost", sends=("gone",), time=2 * MILLISECOND),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(browser, tmp_path)
    yield reader
    reader.close()


def expect(locator: Any) -> Any:
    return sync_api.expect(locator)


def saved_picture(seen: Diagram) -> str:
    """What is in sight, as an SVG file from the menu."""
    seen.page.get_by_role("button", name="Save").click()
    with seen.page.expect_download() as saved:
        seen.page.get_by_role("button", name="Picture as SVG").click()
    return Path(saved.value.path()).read_text(encoding="utf-8")


# Choosing.


def test_choosing_an_event_shows_all_of_it_and_marks_its_past_and_future(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.choose("B:2")

    assert seen.named("selected") == ["B:2"]
    assert seen.named("past") == ["A:1", "B:1"]
    assert seen.named("future") == ["A:9"]
    assert "C:1" in seen.named("concurrent")
    assert "A:5" in seen.named("concurrent")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("answer")
    for role, count in (("past", "2"), ("future", "1"), ("concurrent", "8")):
        expect(seen.details.locator(f".counts .{role} b")).to_have_text(count)
    expect(seen.details.get_by_role("button", name="A:9")).to_be_visible()


def test_what_led_to_an_event_is_listed_newest_first_and_leads_on(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.choose("B:2")
    expect(seen.details.locator(".led .id")).to_have_text(["B:1", "A:1"])
    seen.details.locator(".led button", has_text="A:1").click()

    expect(seen.details.get_by_role("heading", level=2)).to_have_text("ask")
    assert seen.chosen == "A:1"
    expect(seen.details).to_contain_text("Nothing that was reported happened before it.")


def test_the_signs_change_with_the_roles_so_that_colour_is_not_the_only_one(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    seen.choose("B:2")

    svg = saved_picture(seen)

    drawn = seen.signs()
    assert [drawn[one] for one in ("B:2", "B:1", "A:9", "C:1")] == ["selected", "past", "future", "concurrent"]
    assert (
        svg.count("stroke-dasharray") > 7
    )  # Concurrent ones have dashed rings; the message to the future is dashed.


def test_text_of_events_stays_text(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK, title="safe"))

    seen.choose("B:1")

    expect(seen.details.locator("h2")).to_have_text(HOSTILE)
    expect(seen.details.locator("dt").last).to_have_text(HOSTILE)
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() == "safe"


@pytest.mark.parametrize(
    "name",
    ["<script>document.title=1</script>", "</script><b>", "user\u202enimda\u2066", "x" * 10_000, "</template><b>"],
    ids=["script", "end", "bidi", "10kB", "template"],
)
def test_hostile_names_of_everything_are_harmless(reader: Reader, name: str) -> None:
    events = [
        Event(process=name, index=1, name=name, sends=(name,), attributes={name: name}),
        Event(process=f"{name}2", index=1, name=name, receives=(name,), attributes={"k": name}),
        *(Event(process=name, index=index, name=name) for index in range(2, 7)),
    ]
    marks = Marks(violating_messages=[name], notes={events[0].id: name})
    seen = reader.open(diagram_page(events, marks=marks, title=name))
    seen.search.fill(name[:60])
    seen.search.press("Enter")
    expect(seen.details.locator(".counts")).to_be_visible()
    seen.page.get_by_role("button", name="List").click()
    seen.page.get_by_role("button", name="Fold local events").click()
    seen.settled()

    assert seen.page.title() != "1"
    assert seen.page.evaluate("document.querySelectorAll('b').length") == 0
    shown = seen.page.evaluate("document.body.innerText + document.querySelector('.diagram').shadowRoot.textContent")
    assert not any(mark in shown for mark in "\u202e\u2066")
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 1200


def test_a_message_in_the_panel_leads_to_the_event_at_its_other_end(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    seen.choose("B:2")

    seen.details.locator(".messages").get_by_role("button", name="A:9").click()

    expect(seen.details.locator("h2")).to_have_text("done")
    assert seen.named("selected") == ["A:9"]


def test_hovering_names_the_event(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK, marks=Marks(notes={WORK[-1].id: "look here"})))
    place = seen.place("C:1")
    assert place is not None

    seen.page.mouse.move(place["x"], place["y"])

    expect(seen.host.locator("#tip")).to_contain_text("apart")
    expect(seen.host.locator("#tip")).to_contain_text("look here")


def test_the_selected_event_of_the_marks_is_chosen_and_in_sight(reader: Reader) -> None:
    history = History(shop_run(seed=1))
    seen = reader.open(diagram_page(history.order(), marks=Marks(selected=history.event("orders:17").id)))

    expect(seen.details.locator("h2")).to_have_text("checkout failed")
    assert seen.place("orders:17") is not None
    assert len(seen.named("past")) == len(history.past("orders:17"))


def test_marks_without_a_choice_come_back_when_nothing_is_chosen(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK, marks=Marks(past=[WORK[0].id])))
    assert seen.named("past") == ["A:1"]

    seen.choose("C:1")
    assert seen.named("past") == []
    seen.page.keyboard.press("Escape")

    assert seen.named("past") == ["A:1"]


def test_violations_and_failures_have_signs_and_are_counted(reader: Reader) -> None:
    marks = Marks(violations=[TIMED[3].id], violating_messages=["n"])
    seen = reader.open(diagram_page(TIMED, marks=marks, failures=[TIMED[4].id]))

    drawn = seen.ask("({pane}) => pane.spots.map(({event}) => [event.id, event.violation, event.failure])")

    assert [one for one, violation, _ in drawn if violation] == ["A:2"]
    assert [one for one, _, failure in drawn if failure] == ["C:1"]
    expect(seen.host.locator("#facts")).to_contain_text("▲ 1 failure")
    expect(seen.host.locator("#facts")).to_contain_text("◆ 1 event marked")
    assert (194, 24, 58) in seen.colours()  # Red, of the message too.


# Search.


def test_search_finds_by_name_process_id_attribute_and_message_and_goes_on_and_back(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    search, found = seen.search, seen.found

    for wanted, times in (
        ("THINK", "1 of 7"),
        ("order=4711", "1 of 1"),
        ("b:2", "1 of 1"),
        ("nowhere", "none found"),
        ('process = A and name ~ "[2-4]$"', "1 of 3"),
        ("not (process = A or process = B)", "1 of 1"),
        ("kind = receive", "1 of 2"),
    ):
        search.fill(wanted)
        expect(found).to_have_text(times)
    search.fill("think")
    search.press("Enter")
    expect(seen.details.locator("h2")).to_have_text("think 2")
    search.press("Enter")
    expect(seen.details.locator("h2")).to_have_text("think 3")
    seen.page.get_by_role("button", name="Previous match").click()
    seen.page.get_by_role("button", name="Previous match").click()
    expect(seen.details.locator("h2")).to_have_text("think 8")
    expect(found).to_have_text("7 of 7")


def test_a_predicate_that_is_none_is_said_when_it_is_asked_for(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.search.fill("kind ~ send")
    expect(seen.host.locator("#notice")).to_be_hidden()
    seen.search.press("Enter")

    expect(seen.host.locator("#notice")).to_contain_text("kind knows = and != only")
    expect(seen.search).to_have_attribute("aria-invalid", "true")


# Where one looks.


def test_zoom_works_by_buttons_keys_and_wheel(reader: Reader) -> None:
    seen = reader.open(diagram_page(shop_run(seed=1)))

    def scale() -> float:
        seen.settled()
        return float(seen.ask("({pane}) => pane.camera.scale"))

    first = scale()
    seen.page.get_by_role("button", name="Zoom in").click()
    nearer = scale()
    assert nearer == pytest.approx(first * 1.8)
    seen.page.keyboard.press("-")
    seen.page.keyboard.press("-")
    assert scale() == pytest.approx(nearer / 1.5**2)
    seen.page.mouse.move(600, 300)
    seen.page.mouse.wheel(0, -300)
    seen.page.wait_for_function(f"() => beforehand.pane.camera.scale > {nearer / 1.5**2}")
    seen.page.get_by_role("button", name="Fit").click()
    assert scale() == pytest.approx(first)
    assert len(seen.signs()) == 108


def test_dragging_moves_the_drawing_and_chooses_nothing(reader: Reader) -> None:
    seen = reader.open(diagram_page(shop_run(seed=1)))
    seen.page.keyboard.press("+")
    before = seen.ask("({pane}) => pane.camera.range[0]")

    seen.page.mouse.move(600, 300)
    seen.page.mouse.down()
    seen.page.mouse.move(300, 300, steps=4)
    seen.page.mouse.up()

    assert seen.ask("({pane}) => pane.camera.range[0]") > before
    assert seen.chosen is None
    expect(seen.host.locator(".heads .tag").first).to_be_visible()  # The processes keep their names.


def test_the_keyboard_alone_is_enough(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.page.keyboard.press("Tab")
    while seen.ask("({root}) => root.activeElement?.tagName") != "CANVAS":
        seen.page.keyboard.press("Tab")
    seen.search.fill("A:4")
    seen.search.press("Enter")
    expect(seen.details.locator("h2")).to_have_text("think 4")
    seen.host.locator("#stage-main canvas").focus()
    seen.page.keyboard.press("ArrowRight")
    expect(seen.details.locator("h2")).to_have_text("think 5")
    seen.page.keyboard.press("ArrowLeft")
    expect(seen.details.locator("h2")).to_have_text("think 4")
    seen.page.keyboard.press("ArrowDown")
    expect(seen.details.locator("h2")).not_to_have_text("think 4")
    seen.page.keyboard.press("ArrowUp")
    seen.page.keyboard.press("End")
    expect(seen.details.locator("h2")).to_have_text("done")
    seen.page.keyboard.press("Home")
    expect(seen.details.locator("h2")).to_have_text("ask")
    seen.page.keyboard.press("Escape")
    expect(seen.host.locator("#help")).to_be_visible()
    assert seen.chosen is None
    seen.page.keyboard.press("/")
    expect(seen.search).to_be_focused()


def test_the_diagram_is_one_stop_in_the_tab_order(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.choose("B:2")

    assert seen.host.locator('#stage-main .board [tabindex="0"]').count() == 1


def test_processes_can_be_hidden_and_shown_again(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    seen.host.locator(".heads .tag").first.press("x")
    seen.settled()
    first = seen.signs()
    seen.page.get_by_role("button", name="Show all").click()

    assert len({name.partition(":")[0] for name in first}) == 2
    assert len(seen.signs()) == len(WORK)


def test_events_of_a_named_execution_are_found_and_chosen(reader: Reader) -> None:
    events = [Event(execution="day 1/2", process="A", index=index, name=f"n{index}") for index in (1, 2)]
    seen = reader.open(diagram_page(events))

    seen.search.fill("n2")
    seen.search.press("Enter")

    expect(seen.details.locator("h2")).to_have_text("n2")
    expect(seen.details).to_contain_text("day 1/2/A:2")
    assert seen.named("past") == ["A:1"]


def test_the_axis_is_steps_causal_time_or_the_clocks(reader: Reader) -> None:
    late = [Event(process="A", index=1, sends=("m",), time=5), Event(process="B", index=1, receives=("m",), time=2)]
    seen = reader.open(diagram_page(late))
    axis = seen.host.get_by_role("group", name="Axis")
    used = axis.locator("[aria-pressed=true]")

    def places() -> list[int]:
        seen.settled()
        spots = seen.ask("({pane}) => pane.spots.map(({event}) => [event.id, event.x])")
        return [x for _, x in sorted(spots)]

    expect(axis.get_by_role("button")).to_have_text(["Steps", "Time", "Clocks"])
    expect(used).to_have_text("Steps")
    assert places() == [0, 1]
    axis.get_by_role("button", name="Time").click()
    expect(used).to_have_text("Time")
    assert places() == [0, 0]  # What was received is not earlier than what was sent, whatever its clock says.
    seen.page.keyboard.press("s")
    expect(used).to_have_text("Clocks")
    assert places() == [3, 0]


def test_without_any_time_there_is_no_axis_to_choose(reader: Reader) -> None:
    seen = reader.open(diagram_page([Event(process="A", index=1)]))

    expect(seen.host.locator("#axis")).to_be_hidden()


def test_an_address_brings_back_what_was_seen(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    seen.choose("B:2")
    seen.page.wait_for_function("() => decodeURIComponent(location.hash).includes('selected=B:2')")
    hash_ = seen.page.evaluate("location.hash")

    again = reader.open(diagram_page(WORK), hash_)

    expect(again.details.locator("h2")).to_have_text("answer")


# Runs of local events.


def test_local_events_fold_and_unfold_and_what_is_chosen_stays_chosen(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    fold = seen.page.get_by_role("button", name="Fold local events")
    seen.choose("A:5")

    fold.click()
    expect(fold).to_have_attribute("aria-pressed", "true")
    expect(seen.details.locator("h2")).to_have_text("7 local events")
    assert seen.named("selected") == ["A:2"]
    expect(seen.details).to_contain_text("A:2 to A:8")
    assert seen.ask("({pane}) => pane.spots.map(({event}) => event.count)").count(7) == 1
    seen.choose("A:9")
    expect(seen.details.locator(".counts .past b")).to_have_text("10")  # Events, however many signs they have.
    fold.click()
    expect(fold).to_have_attribute("aria-pressed", "false")
    expect(seen.details.locator("h2")).to_have_text("done")

    assert seen.named("selected") == ["A:9"]
    expect(seen.details.locator(".counts .past b")).to_have_text("10")


def test_the_warning_is_that_of_the_drawing_that_is_shown(reader: Reader) -> None:
    events = [Event(process="A", index=index) for index in range(1, 31)]
    seen = reader.open(diagram_page(events, options=LayoutOptions(events_max=20)))
    expect(seen.page.get_by_role("note")).to_have_text("⚠ 10 of 30 events are not drawn.")

    seen.page.get_by_role("button", name="Fold local events").click()

    expect(seen.page.get_by_role("note")).to_have_count(0)


# Cuts.


def test_the_cut_slider_shows_the_cut_and_the_messages_in_flight(reader: Reader) -> None:
    seen = reader.open(diagram_page(TIMED, options=LayoutOptions(axis="clocks")))
    seen.host.locator("#axis").get_by_role("button", name="Time").click()
    seen.settled()
    seen.page.get_by_role("button", name="Cut", exact=True).click()
    says, slider = seen.host.locator("#cut-says"), seen.host.locator("#cut-slider")

    expect(says).to_contain_text("consistent")
    places = seen.ask(
        "({pane}) => Object.fromEntries(pane.spots.map((one) => [one.event.id, one.x / pane.camera.width]))"
    )
    between = (places["B:1"] + places["B:2"]) / 2
    slider.fill(str(round(2000 * (places["C:1"] + places["B:1"]) / 2)))
    expect(says).to_contain_text("2 events on 2 processes inside · consistent · 1 message in flight: m")
    expect(says).to_contain_text("1 message never received")
    slider.fill(str(round(2000 * between)))
    expect(says).to_contain_text("3 events on 3 processes inside · consistent · 0 messages in flight")


def test_a_cut_after_an_event_has_its_past_only(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    seen.choose("B:2")

    seen.page.get_by_role("button", name="The smallest consistent cut with this event").click()

    says = seen.host.locator("#cut-says")
    expect(says).to_contain_text("Cut after B:2 · 3 events on 2 processes inside")
    expect(says).to_contain_text("1 message in flight: n")


def test_the_cut_of_the_marks_is_shown(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK, marks=Marks(cut={"A": 1, "B": 2})))

    expect(seen.host.locator("#cut-says")).to_contain_text("3 events on 2 processes inside")


# The whole page.


def test_what_only_a_service_can_do_is_not_here(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    for name in ("Live", "Compare", "Open"):
        assert seen.page.get_by_role("button", name=name, exact=True).count() == 0
    seen.page.keyboard.press("?")
    expect(seen.host.locator("#manual")).to_be_visible()
    expect(seen.host.locator("#manual")).not_to_contain_text("compare")


@pytest.mark.parametrize(("scheme", "paper"), [("light", (255, 255, 255)), ("dark", (18, 23, 29))])
def test_colours_follow_the_reader_and_can_be_changed(
    browser: Any, tmp_path: Path, scheme: str, paper: tuple[int, int, int]
) -> None:
    reader = Reader(browser, tmp_path, color_scheme=scheme)
    seen = reader.open(diagram_page(WORK))
    assert paper in seen.colours()

    seen.page.keyboard.press("d")

    assert paper not in seen.colours()
    ground = seen.host.locator("aside").evaluate("(aside) => getComputedStyle(aside).backgroundColor")
    assert ground == ("rgb(11, 15, 20)" if scheme == "light" else "rgb(244, 246, 249)")
    reader.close()


def test_without_a_script_the_drawing_is_there(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(diagram_page(WORK, title="Without a script"), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()

    page.goto(file.as_uri())

    expect(page.locator("svg.st:not(.definitions)")).to_be_visible()
    expect(page.get_by_role("heading", name="Without a script")).to_be_visible()
    context.close()


def test_a_browser_that_lacks_something_shows_the_drawing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(diagram_page(WORK), encoding="utf-8")
    context = browser.new_context()
    context.add_init_script("delete globalThis.ResizeObserver")
    page = context.new_page()

    page.goto(file.as_uri())

    expect(page.locator("svg.st:not(.definitions)")).to_be_visible()
    context.close()


def test_on_paper_it_is_the_drawing(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))
    drawing = seen.page.locator("svg.st:not(.definitions)")
    expect(drawing).to_be_hidden()

    seen.page.emulate_media(media="print")

    expect(drawing).to_be_visible()
    expect(seen.host.locator("#stage")).to_be_hidden()


def test_the_picture_can_be_saved(reader: Reader) -> None:
    seen = reader.open(diagram_page(WORK))

    text = saved_picture(seen)

    assert text.startswith("<svg")
    assert "&lt;/script&gt;" in text


def test_a_large_diagram_opens_and_is_searched(reader: Reader) -> None:
    events = [
        Event(process=f"p{number % 25}", index=1 + number // 25, name=f"step {number}", sends=(f"m{number}",))
        for number in range(2_000)
    ]
    seen = reader.open(diagram_page(events))

    seen.search.fill("step 1999")
    seen.search.press("Enter")

    expect(seen.details.locator("h2")).to_have_text("step 1999")
    assert seen.place("p24:80") is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_drawing_and_panel_without_scrolling_the_page(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    reader = Reader(browser, tmp_path, viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    seen = reader.open(diagram_page(shop_run(seed=1), title="A long title that has no room on a phone"))
    place = seen.place("mail:1") or seen.place("web:1")
    assert place is not None

    seen.page.touchscreen.tap(place["x"], place["y"])

    expect(seen.details.locator("h2")).to_be_in_viewport()
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 360
    assert seen.page.evaluate("document.documentElement.scrollHeight") == 740
    assert seen.host.locator("#stage").bounding_box()["height"] > 250
    reader.close()


def test_an_empty_diagram_opens(reader: Reader) -> None:
    seen = reader.open(diagram_page([]))

    seen.page.keyboard.press("+")

    expect(seen.host.locator("#help")).to_be_visible()
    expect(seen.host.locator("#nothing")).to_have_text("There are no events here.")


def test_an_index_beyond_what_a_number_holds_is_exact(reader: Reader) -> None:
    large = 2**62 + 1
    seen: Diagram = reader.open(diagram_page([Event(process="A", index=large), Event(process="A", index=large + 1)]))

    seen.choose(f"A:{large}")

    assert seen.named("future") == [f"A:{large + 1}"]
    expect(seen.details).to_contain_text(f"A:{large}")
