"""Lanes: hidden, folded, moved; and light and dark."""

from __future__ import annotations

from browsing import FEW, Serve, Visitor, expect

from beforehand.diagram.sheet import DARK, LIGHT
from beforehand.events import Event


def rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def test_a_process_is_hidden_and_shown_again(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.pane.locator(".head", has_text="B").hover()
    seen.page.get_by_role("button", name="Hide: B").click()
    seen.settled()

    expect(seen.pane.locator(".tag")).to_have_text(["A", "C"])
    assert sorted(seen.roles()) == ["A:1", "A:2", "A:3", "C:1"]
    expect(seen.page.locator("#hidden-lanes")).to_contain_text("1 process is hidden")
    seen.page.get_by_role("button", name="Show all").click()
    expect(seen.pane.locator(".tag")).to_have_text(["A", "B", "C"])


def test_keys_fold_hide_and_move_a_process(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    tags = seen.pane.locator(".tag")

    tags.nth(0).focus()
    seen.page.keyboard.press("Alt+ArrowDown")
    expect(tags).to_have_text(["B", "A", "C"])
    expect(tags.nth(1)).to_be_focused()
    tall = seen.js("() => beforehand.pane.lanes.rows[1].size")
    seen.page.keyboard.press("Enter")
    expect(tags.nth(1)).to_have_attribute("aria-pressed", "true")
    assert seen.js("() => beforehand.pane.lanes.rows[1].size") < tall / 2
    seen.page.keyboard.press("x")
    expect(tags).to_have_text(["B", "C"])
    seen.page.keyboard.press("h")
    expect(tags).to_have_text(["B", "A", "C"])
    seen.hash("order=B&order=A&order=C")


def test_the_last_lane_cannot_be_hidden(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW[-1:])
    seen = visitor.open(service.url)

    seen.pane.locator(".tag").focus()
    seen.page.keyboard.press("x")

    expect(seen.pane.locator(".tag")).to_have_text(["C"])


def test_more_lanes_than_fit_can_be_scrolled_and_only_those_in_sight_exist(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    events = [Event(process=f"p{at:03}", index=index, time=at * 10 + index) for at in range(300) for index in (1, 2)]
    service.report(events)
    seen = visitor.open(service.url)
    assert seen.pane.locator(".tag").count() < 30
    expect(seen.pane.locator(".tag").first).to_have_text("p000")

    for _ in range(4):
        seen.page.keyboard.press("Shift+ArrowDown")
    seen.settled()

    expect(seen.pane.locator(".tag", has_text="p000")).to_have_count(0)
    assert any(name.startswith("p010") for name in seen.roles())
    seen.js("() => beforehand.pane.scroll(1e9)")
    seen.settled()
    expect(seen.pane.locator(".tag").last).to_have_text("p299")
    assert "p299:2" in seen.roles()


def test_dark_follows_the_reader_and_the_button_changes_it_for_good(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url, color_scheme="dark")
    assert seen.paper() == rgb(DARK.paper)

    seen.page.get_by_role("button", name="Use light colours").click()
    seen.settled()
    assert seen.paper() == rgb(LIGHT.paper)
    assert seen.js("() => getComputedStyle(document.body).color") == "rgb(30, 42, 54)"

    seen.page.reload()
    seen.settled()
    assert seen.paper() == rgb(LIGHT.paper)


def test_the_picture_is_sharp_on_fine_screens(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)

    seen = visitor.open(service.url, device_scale_factor=2)

    wide, shown = seen.js("() => [beforehand.pane.canvas.width, beforehand.pane.canvas.clientWidth]")
    assert wide == 2 * shown


def test_names_of_lanes_keep_what_tells_them_apart(visitor: Visitor, serve: Serve) -> None:
    names = [f"42795@a-host-with-a-long-name[worker-{number},5,main]" for number in (27, 28, 128)]
    service = serve()
    service.report([Event(process=name, index=1, time=at) for at, name in enumerate(names)])
    seen = visitor.open(service.url)
    tags = seen.pane.locator(".tag")

    expect(tags).to_have_text(["…worker-128…", "…worker-27…", "…worker-28…"])
    expect(tags.nth(1)).to_have_attribute("title", f"{names[0]}: 1 event")
    assert seen.js("() => [...document.querySelectorAll('.tag')].every((one) => one.scrollWidth <= one.clientWidth)")
    picture = seen.page.evaluate("async () => (await import('/page/exporting.js')).svgOf(beforehand.pane)")
    assert f"<title>{names[0]}</title>" in picture
    assert ">…worker-27…</text>" in picture
