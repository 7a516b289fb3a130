"""Going to an event: near enough to read what is around it, without the processes that have nothing to do with it."""

from __future__ import annotations

from browsing import FEW, MILLISECOND, Serve, Visitor, expect

from beforehand.events import Event


def test_a_match_is_brought_so_near_that_its_neighbours_have_names(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(
        [Event(process="A", index=at, name=f"step {at}", time=at * MILLISECOND) for at in range(1, 301)]
        + [Event(process="B", index=1, name="needle", time=150 * MILLISECOND)]
    )
    seen = visitor.open(service.url)

    seen.page.get_by_role("searchbox").fill("needle")
    seen.page.keyboard.press("Enter")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("needle")
    seen.settled()

    picture = seen.page.evaluate("async () => (await import('/page/exporting.js')).svgOf(beforehand.pane)")
    assert all(f">step {at}</text>" in picture for at in range(145, 156))


def test_a_match_at_the_end_leaves_no_empty_half(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([Event(process="A", index=at, name=f"step {at}", time=at * MILLISECOND) for at in range(1, 301)])
    seen = visitor.open(service.url)

    seen.page.get_by_role("searchbox").fill("step 300")
    seen.page.keyboard.press("Enter")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("step 300")
    seen.settled()

    at = "beforehand.pane.spots.find((one) => one.role === 'selected').x"
    assert seen.js(f"() => {at} / beforehand.pane.camera.width") > 0.9
    assert seen.js("() => beforehand.pane.spots.length") > 10


def test_only_the_processes_of_an_event_are_shown_and_the_address_remembers(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    tags = seen.pane.locator(".tag")
    seen.choose("B:1")

    seen.details.get_by_role("button", name="Only its processes").click()
    seen.settled()

    expect(tags).to_have_text(["A", "B"])
    assert seen.roles()["B:1"] == "selected"
    seen.hash("hidden=C")
    seen.page.reload()
    seen.settled()
    expect(tags).to_have_text(["A", "B"])
    expect(seen.details.get_by_role("button", name="All processes")).to_be_visible()
    seen.details.get_by_role("button", name="All processes").click()
    expect(tags).to_have_text(["A", "B", "C"])


def test_a_key_shows_only_the_processes_of_the_chosen_event(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    tags = seen.pane.locator(".tag")

    seen.page.keyboard.press("p")
    expect(seen.notice).to_contain_text("Choose an event first")
    seen.choose("C:1")
    seen.page.keyboard.press("p")
    expect(tags).to_have_text(["C"])
    seen.page.keyboard.press("h")
    expect(tags).to_have_text(["A", "B", "C"])


def test_the_chosen_event_stays_in_sight_while_time_is_bent_anew(visitor: Visitor, serve: Serve) -> None:
    """1. Other lanes are asked for, so nothing is loaded and time is to scale. 2. The canvas gets another size, and
    what is in its middle is held, which is another event once they are loaded and spread."""
    service = serve()
    service.report([Event(process="z", index=at, name=f"e{at}.", time=at // 40 * 10**9) for at in range(1, 241)])
    seen = visitor.open(service.url)
    seen.page.get_by_role("searchbox").fill("e155.")
    seen.page.keyboard.press("Enter")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("e155.")
    seen.settled()

    seen.js(
        """() => {
          const { pane } = beforehand, { camera } = pane;
          pane.close();
          camera.bend([]);
          camera.held = { t: camera.span / 5, depth: 0, px: 0 };
          pane.redraw();
        }"""
    )
    seen.settled()

    at = seen.js(
        "() => beforehand.pane.spots.find((one) => one.role === 'selected')?.x / beforehand.pane.camera.width"
    )
    assert 0 < at < 1
