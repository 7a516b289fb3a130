"""Looking at a diagram: open, pan, zoom, choose, by mouse, wheel, fingers and keys."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from browsing import FEW, MILLISECOND, Serve, Visitor, expect

from beforehand.cli.shop import shop_run
from beforehand.diagram.sheet import LIGHT
from beforehand.events import Event
from beforehand.formats.native import write_events
from beforehand.history import History
from history_directories import make_pack_directory


def test_the_page_opens_with_everything_in_sight(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)

    seen = visitor.open(service.url)

    assert sorted(seen.roles()) == ["A:1", "A:2", "A:3", "B:1", "B:2", "C:1"]
    expect(seen.pane.locator(".tag")).to_have_text(["A", "B", "C"])
    expect(seen.page.locator("#facts")).to_contain_text("6 events")
    expect(seen.page.locator("#facts")).to_contain_text("1 failure")
    assert len(seen.colours()) > 20
    width = seen.page.viewport_size["width"]
    assert all(0 < seen.place(one)["x"] < width for one in seen.roles())


def test_arrows_point_right_even_where_clocks_tell_the_same(visitor: Visitor, serve: Serve) -> None:
    # The clocks of the shop disagree, so most events have the causal time of another.
    service = serve()
    service.report(shop_run(seed=1, customers=3))

    seen = visitor.open(service.url)

    backwards = seen.js(
        """() => {
          const spots = new Map(beforehand.pane.spots.map((one) => [one.event.lane + " " + one.event.index, one.x]));
          return beforehand.pane.leaves.flatMap((leaf) => leaf.shown.data.messages)
            .map(({from, to}) => spots.get(to.lane + " " + to.index) - spots.get(from.lane + " " + from.index))
            .filter((dx) => !(dx > 1)).length;
        }"""
    )
    assert backwards == 0


def test_an_empty_store_says_so_and_an_event_ends_that(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    seen = visitor.open(service.url)
    expect(seen.page.locator(".nothing")).to_be_visible()

    service.report(FEW)
    seen.page.reload()
    seen.settled()

    expect(seen.page.locator(".nothing")).to_be_hidden()


def test_choosing_an_event_marks_past_future_and_concurrent_as_history_says(visitor: Visitor, serve: Serve) -> None:
    history = History(FEW)
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.choose("B:1")

    chosen = history.event("B:1")
    expected = {str(one.id): "concurrent" for one in history.concurrent(chosen)}
    expected |= {str(one.id): "past" for one in history.past(chosen)}
    expected |= {str(one.id): "future" for one in history.future(chosen)}
    assert seen.roles() == {**expected, "B:1": "selected"}
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("asked")
    expect(seen.details.locator(".counts b")).to_have_text(["1", "2", "2"])
    expect(seen.details.locator(".led .id")).to_have_text(["A:1"])


def test_what_led_to_this_leads_there(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    seen.choose("A:3")
    expect(seen.details.locator(".led .id")).to_have_text(["B:2", "B:1", "A:2", "A:1"])

    seen.details.get_by_role("button", name="A:1").click()

    expect(seen.details.get_by_role("heading", level=2)).to_have_text("ask")
    expect(seen.details).to_contain_text("4711")


def test_dragging_moves_and_a_click_beside_everything_chooses_nothing(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    seen.choose("B:1")
    before = seen.place("B:1")["x"]

    mouse = seen.page.mouse
    mouse.move(700, 500)
    mouse.down()
    mouse.move(640, 500, steps=4)
    mouse.move(580, 500, steps=4)
    mouse.up()
    seen.settled()

    assert abs(seen.place("B:1")["x"] - (before - 120)) < 2
    expect(seen.details.locator(".counts")).to_be_visible()
    mouse.click(700, 560)
    expect(seen.details.locator(".counts")).to_have_count(0)


def test_the_wheel_zooms_at_the_pointer(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(shop_run(seed=1, customers=30))
    seen = visitor.open(service.url)
    low, high = seen.range()
    under = "([x]) => beforehand.pane.camera.map.time(x - beforehand.pane.canvas.getBoundingClientRect().left)"
    held = seen.page.evaluate(under, [700])

    seen.page.mouse.move(700, 300)
    for _ in range(4):
        seen.page.mouse.wheel(0, -120)
    seen.settled()

    closer_low, closer_high = seen.range()
    assert closer_high - closer_low < (high - low) / 2
    assert abs(seen.page.evaluate(under, [700]) - held) < (high - low) / 50
    for _ in range(12):
        seen.page.mouse.wheel(0, 120)
    seen.settled()
    assert seen.range()[1] - seen.range()[0] > (high - low) * 0.8


def test_buttons_zoom_and_fit(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(shop_run(seed=1, customers=10))
    seen = visitor.open(service.url)
    low, high = seen.range()

    seen.page.get_by_role("button", name="Zoom in").click()
    seen.page.get_by_role("button", name="Zoom in").click()
    seen.settled()
    assert seen.range()[1] - seen.range()[0] < (high - low) / 2

    seen.page.get_by_role("button", name="Fit").click()
    seen.settled()
    assert seen.range() == (low, high)


def test_two_fingers_zoom(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(shop_run(seed=1, customers=10))
    seen = visitor.open(service.url, has_touch=True)
    low, high = seen.range()

    seen.js(
        """() => {
          const canvas = document.querySelector("#stage-main canvas");
          canvas.setPointerCapture = () => {};
          const touch = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, {
            pointerId: id, pointerType: "touch", clientX: x, clientY: 300, button: 0, bubbles: true}));
          touch("pointerdown", 11, 600);
          touch("pointerdown", 12, 700);
          for (let x = 700; x <= 900; x += 20) touch("pointermove", 12, x);
          touch("pointerup", 11, 600);
          touch("pointerup", 12, 900);
        }"""
    )
    seen.settled()

    assert seen.range()[1] - seen.range()[0] < (high - low) / 1.5


def test_keys_alone_do_for_choosing_moving_zooming_and_help(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    keyboard = seen.page.keyboard

    seen.page.keyboard.press("Tab")  # The link that skips to the diagram.
    seen.canvas.focus()
    keyboard.press("ArrowRight")
    expect(seen.details.locator(".counts")).to_be_visible()
    first = seen.details.get_by_role("heading", level=2).inner_text()
    seen.settled()
    keyboard.press("ArrowUp")
    expect(seen.details.get_by_role("heading", level=2)).not_to_have_text(first)
    seen.settled()
    low, high = seen.range()
    keyboard.press("+")
    seen.settled()
    assert seen.range()[1] - seen.range()[0] < high - low
    keyboard.press("Shift+ArrowRight")
    keyboard.press("0")
    keyboard.press("Escape")
    expect(seen.details.locator(".counts")).to_have_count(0)
    keyboard.press("/")
    expect(seen.page.get_by_role("searchbox")).to_be_focused()
    keyboard.press("Escape")
    expect(seen.canvas).to_be_focused()
    keyboard.press("?")
    manual = seen.page.locator("#manual")
    expect(manual).to_be_visible()
    expect(manual).to_contain_text("next match")
    keyboard.press("Escape")
    expect(manual).to_be_hidden()


def test_the_events_in_sight_can_be_read_as_a_table(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    seen.choose("B:1")

    seen.page.keyboard.press("l")

    rows = seen.page.locator("#listing tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("ask")
    expect(rows.first).to_contain_text("◐ before")
    rows.last.get_by_role("button").click()
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("apart")
    expect(seen.page.locator("#sight")).to_contain_text("6 events in sight on 3 lanes")


def test_everything_that_can_be_used_has_a_name_and_shows_its_focus(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    nameless = seen.js(
        """() => [...document.querySelectorAll("button, input, select, canvas:not([aria-hidden])")]
          .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
          .map((one) => one.id || one.outerHTML)"""
    )

    assert nameless == []
    seen.page.keyboard.press("/")
    seen.page.keyboard.press("Shift+Tab")
    outline = seen.js("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_an_execution_is_chosen_from_the_list(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([replace(one, execution="monday") for one in FEW])
    service.report([replace(one, execution="tuesday") for one in FEW[:2]])
    seen = visitor.open(service.url, "#execution=tuesday")
    expect(seen.page.locator("#facts")).to_contain_text("2 events")

    seen.page.get_by_label("Execution", exact=True).first.select_option(label="monday · 6 events")

    expect(seen.page.locator("#facts")).to_contain_text("6 events")
    seen.settled()
    seen.choose("B:1")
    expect(seen.details.locator(".led .id")).to_have_text(["A:1"])


def test_executions_of_a_file_with_failures_come_first_and_ids_are_short(
    visitor: Visitor, serve: Serve, tmp_path: Path
) -> None:
    service = serve()
    good, bad = "8ce82b2e9ed820ba", "109b94cbfd24cd51"
    events = [replace(one, execution=bad) for one in FEW] + [replace(FEW[0], execution=good, time=10**9)]
    log = tmp_path / "two.jsonl"
    write_events(events, log)
    seen = visitor.open(service.url)

    seen.drop(log)

    expect(seen.notice).to_contain_text("two.jsonl (native): 7 events")
    options = seen.page.locator("#execution optgroup").first.locator("option")
    expect(options).to_have_text(["109b…cd51 · 6 events · ▲ 1", "8ce8…20ba · 1 event"])
    expect(options.first).to_have_attribute("title", bad)


def test_the_axis_can_be_causal_steps(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    seen.choose("B:1")

    seen.page.keyboard.press("s")

    axis = seen.page.get_by_role("group", name="Axis")
    expect(axis.locator("[aria-pressed=true]")).to_have_text("Steps")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("asked")
    seen.settled()
    assert seen.roles()["A:1"] == "past"
    seen.hash("axis=steps")
    axis.get_by_role("button", name="Time").focus()
    seen.page.keyboard.press("Enter")
    expect(axis.locator("[aria-pressed=true]")).to_have_text("Time")
    expect(axis.get_by_role("button", name="Time")).to_be_focused()


def test_a_history_directory_is_looked_at_in_the_same_way(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    events = [replace(one, execution="x") for one in FEW]
    service = serve(directory=make_pack_directory([events], tmp_path, packs=1).path)

    seen = visitor.open(service.url)

    seen.choose("B:1")
    assert seen.roles()["A:1"] == "past"
    assert seen.roles()["C:1"] == "concurrent"
    expect(seen.page.locator("#live")).to_be_disabled()
    seen.page.keyboard.press("c")
    expect(seen.page.locator("#cut-says")).to_contain_text("consistent")


def test_a_failure_is_seen_however_far_out(visitor: Visitor, serve: Serve) -> None:
    """Among a thousand dots of 4 px its triangle has 9, and nothing is drawn over it."""
    events = [Event(process="A", index=at, time=at * MILLISECOND) for at in range(1, 1001)]
    events[499] = replace(events[499], attributes={"level": "error"})
    service = serve()
    service.report(events)
    seen = visitor.open(service.url)
    assert seen.detail == "events"

    picture = seen.page.evaluate("async () => (await import('/page/exporting.js')).svgOf(beforehand.pane)")

    signs = [line for line in picture.split("\n") if line.startswith("<path") and f'fill="{LIGHT.ink}"' in line]
    (failure,) = [line for line in picture.split("\n") if line.startswith("<path") and LIGHT.violation in line]
    assert picture.index(failure) > picture.index(signs[-1])
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", failure)]
    assert max(xs) - min(xs) >= 9
    dot = seen.place("A:500")
    assert dot is not None
    seen.page.mouse.click(dot["x"] + 1.5, dot["y"])
    expect(seen.details.locator(".counts b").first).to_have_text("499")


def test_failures_are_triangles_in_strips_and_in_the_overview(visitor: Visitor, serve: Serve) -> None:
    events = [Event(process="A", index=at, time=at * MILLISECOND) for at in range(1, 3001)]
    events[1499] = replace(events[1499], attributes={"level": "error"})
    service = serve()
    service.report(events)
    seen = visitor.open(service.url)
    assert seen.detail == "columns"

    picture = seen.page.evaluate("async () => (await import('/page/exporting.js')).svgOf(beforehand.pane)")

    (failure,) = [line for line in picture.split("\n") if line.startswith("<path") and LIGHT.violation in line]
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", failure)]
    assert max(xs) - min(xs) >= 9
    widest = seen.js(
        """() => {
          const canvas = document.getElementById("mini");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const red = (x, y) => data[4 * (y * canvas.width + x)] - data[4 * (y * canvas.width + x) + 1] > 100;
          const rows = [...Array(canvas.height).keys()];
          return Math.max(...rows.map((y) => [...Array(canvas.width).keys()].filter((x) => red(x, y)).length));
        }"""
    )
    assert widest >= 7


def test_inferred_messages_are_dotted_and_nameless_events_called_by_process_and_index(
    visitor: Visitor, serve: Serve
) -> None:
    service = serve()
    service.report(
        [
            Event(process="A", index=1, sends=("~1", "m"), time=1, execution="one"),
            Event(process="B", index=1, receives=("~1",), time=2 * MILLISECOND, execution="one"),
            Event(process="B", index=2, receives=("m",), time=3 * MILLISECOND, execution="one"),
        ]
    )
    seen = visitor.open(service.url)

    picture = seen.page.evaluate("async () => (await import('/page/exporting.js')).svgOf(beforehand.pane)")

    assert picture.count('stroke-dasharray="1.5 3.5"') == 1
    assert all(f">{name}</text>" in picture for name in ("A:1", "B:1", "B:2"))
    seen.choose("B:1")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("B:1")


def test_few_processes_share_the_height(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)

    seen = visitor.open(service.url)

    low = seen.js("() => beforehand.pane.lanes.rows.at(-1).y / beforehand.pane.camera.height")
    assert low > 0.75
    box = seen.page.get_by_role("searchbox")
    assert box.evaluate(
        "(box) => { const pen = document.createElement('canvas').getContext('2d');"
        " pen.font = getComputedStyle(box).font;"
        " return pen.measureText(box.placeholder).width < box.clientWidth - 20; }"
    )
