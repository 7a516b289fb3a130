"""Finding things: search, cuts, comparison, and addresses that lead to the same view again."""

from __future__ import annotations

from dataclasses import replace

from browsing import FEW, Serve, Visitor, expect

from beforehand.cli.shop import shop_run
from beforehand.history import History


def test_words_find_by_name_and_go_on_and_back(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(shop_run(seed=1, customers=5))
    seen = visitor.open(service.url)
    search, found = seen.page.get_by_role("searchbox"), seen.page.locator("#found")
    heading = seen.details.get_by_role("heading", level=2)

    search.fill("MAILED")
    search.press("Enter")
    expect(found).to_have_text("1 of 9")
    expect(heading).to_contain_text("mailed")
    first = heading.inner_text()
    search.press("Enter")
    expect(found).to_have_text("2 of 9")
    expect(heading).not_to_have_text(first)
    search.press("Shift+Enter")
    expect(found).to_have_text("1 of 9")
    expect(heading).to_have_text(first)
    seen.page.get_by_role("button", name="Previous match").click()
    expect(found).to_have_text("9 of 9")
    search.press("Escape")
    expect(found).to_have_text("")


def test_a_predicate_finds_and_its_match_is_brought_into_sight(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(shop_run(seed=1, customers=40))
    seen = visitor.open(service.url)
    seen.page.get_by_role("searchbox").fill('process = orders and name ~ "failed"')
    seen.page.get_by_role("searchbox").press("Enter")
    expect(seen.page.locator("#found")).to_have_text("1 of 1")
    seen.settled()

    expect(seen.details.get_by_role("heading", level=2)).to_contain_text("failed")
    selected = [name for name, role in seen.roles().items() if role == "selected"]
    assert len(selected) == 1
    assert 200 < seen.place(selected[0])["x"] < 900


def test_a_wrong_predicate_is_said_in_one_line(visitor: Visitor, serve: Serve) -> None:
    visitor.expected.append("400 (Bad Request)")  # The browser's own word for a refused request.
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.page.get_by_role("searchbox").fill("name ~ (")
    seen.page.get_by_role("searchbox").press("Enter")

    expect(seen.notice).to_be_visible()
    assert "\n" not in seen.notice.inner_text()
    expect(seen.page.get_by_role("searchbox")).to_have_attribute("aria-invalid", "true")


def test_nothing_found_is_said(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.page.get_by_role("searchbox").fill("nowhere")
    seen.page.get_by_role("searchbox").press("Enter")

    expect(seen.page.locator("#found")).to_have_text("none found")
    expect(seen.page.get_by_role("button", name="Next match")).to_be_disabled()


def test_the_slider_shows_the_consistent_cut_and_what_is_in_flight(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    drawn = seen.drawn

    seen.page.keyboard.press("c")
    expect(seen.page.locator("#cut-says")).to_contain_text("consistent")
    slider = seen.page.get_by_role("slider")
    # Between A:2 and B:1, so that m is on its way.
    seen.js(
        """() => {
          const {pane} = beforehand, x = (pane.camera.map.pos(1e6) + pane.camera.map.pos(2e6)) / 2;
          const slider = document.querySelector("#cut-slider");
          slider.value = String(x / pane.camera.width * 2000);
          slider.dispatchEvent(new Event("input"));
        }"""
    )

    expect(seen.page.locator("#cut-says")).to_contain_text("2 events on 1 process inside")
    expect(seen.page.locator("#cut-says")).to_contain_text("1 message in flight: m")
    seen.settled()
    assert seen.drawn > drawn
    assert seen.js("() => beforehand.cut.front.cut") == {"A": 2, "B": 0, "C": 0}
    slider.focus()
    slider.press("End")
    expect(seen.page.locator("#cut-says")).to_contain_text("6 events on 3 processes inside")
    seen.page.get_by_role("button", name="Remove the cut").click()
    expect(seen.page.locator("#cut-bar")).to_be_hidden()


def test_the_front_stands_between_what_is_inside_and_what_is_not(visitor: Visitor, serve: Serve) -> None:
    events = shop_run(seed=1, customers=4)
    history = History(events)
    service = serve()
    service.report(events)
    seen = visitor.open(service.url)

    seen.choose("stock:6")
    seen.page.get_by_role("button", name="The smallest consistent cut with this event").click()

    expect(seen.page.locator("#cut-says")).to_contain_text("Cut after stock:6")
    seen.settled()
    cut = history.cut_after("stock:6").cut
    assert {name: index for name, index in seen.js("() => beforehand.cut.front.cut").items() if index} == dict(cut)
    seen.hash("cut=after:stock:6")


def test_a_link_leads_to_the_same_view(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([replace(one, execution="a day & more") for one in shop_run(seed=1, customers=20)])
    seen = visitor.open(service.url)
    seen.page.mouse.move(600, 300)
    for _ in range(6):
        seen.page.mouse.wheel(0, -120)
    seen.settled()
    event = next(name for name in seen.roles() if 300 < seen.place(name)["x"] < 700)
    seen.choose(event)
    seen.page.get_by_role("searchbox").fill("mailed")
    seen.js("() => beforehand.search.run('mailed', {move: false})")
    seen.page.keyboard.press("Escape")
    seen.canvas.focus()
    seen.choose(event)
    seen.js("() => beforehand.search.run('name ~ mailed', {move: false})")
    seen.page.keyboard.press("c")
    expect(seen.page.locator("#cut-says")).to_contain_text("inside")
    seen.js(
        "() => { beforehand.pane.lanes.hide('web'); beforehand.pane.lanes.fold('mail'); beforehand.pane.relay(); }"
    )
    seen.settled()
    seen.hash("folded=mail")

    again = visitor.open(service.url, "#" + seen.page.url.partition("#")[2])

    expect(again.details.locator(".counts")).to_be_visible()
    again.settled()
    assert again.roles()[event] == "selected"
    assert abs(again.place(event)["x"] - seen.place(event)["x"]) < 4
    expect(again.page.get_by_role("searchbox")).to_have_value("name ~ mailed")
    expect(again.page.locator("#cut-says")).to_have_text(seen.page.locator("#cut-says").inner_text())
    expect(again.pane.locator(".tag")).to_have_text(["cart", "mail", "orders", "payment", "stock"])
    expect(again.pane.locator(".folded .tag")).to_have_text(["mail"])
    expect(again.page).to_have_title("a day & more · Beforehand")


def test_a_wrong_link_is_said_and_the_page_lives(visitor: Visitor, serve: Serve) -> None:
    visitor.expected.append("404 (Not Found)")
    service = serve()
    service.report(FEW)

    seen = visitor.open(service.url, "#selected=nobody:7&at=x&width=-4&cut=never&hidden=ghost")

    expect(seen.notice).to_contain_text("nobody:7")
    seen.settled()
    seen.choose("B:1")


def test_the_second_execution_shows_its_violations_though_nobody_looked_at_it_before(
    visitor: Visitor, serve: Serve
) -> None:
    service = serve()
    for name, order in (("good", "causal"), ("bad", "fifo")):
        service.report([replace(one, execution=name) for one in shop_run(seed=1, customers=1, order=order)])
    seen = visitor.open(service.url, "#execution=good")

    seen.page.keyboard.press("m")
    seen.page.locator("#choosing").get_by_role("button", name="Compare").click()

    expect(seen.page.locator("#stage-other .pane-title")).to_contain_text("bad")
    seen.page.wait_for_function("() => beforehand.compare.other.overview.violations === 1")
    assert seen.js("() => beforehand.pane.overview.violations") == 0


def test_two_executions_stand_side_by_side_and_differences_are_framed(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([replace(one, execution="good") for one in FEW])
    other = [one for one in FEW if one.name != "think"]
    renumbered = [replace(one, index=2) if str(one.id) == "A:3" else one for one in other]
    service.report([replace(one, execution="bad") for one in renumbered])
    seen = visitor.open(service.url, "#execution=good")

    seen.page.get_by_role("button", name="Compare").first.click()
    seen.page.locator("#against").select_option(label="bad · 5 events")
    seen.page.locator("#choosing").get_by_role("button", name="Compare").click()

    expect(seen.page.locator("#compared")).to_contain_text("Where they differ")
    expect(seen.page.locator("#compared li")).to_have_count(1)
    expect(seen.page.locator("#compared li")).to_contain_text("only first 1 · only second 0")
    boxes = [seen.page.locator(f"#stage-{name} canvas").bounding_box() for name in ("main", "other")]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert seen.js("() => [...beforehand.compare.only.get(beforehand.pane)]") == ["good/A:2"]
    seen.page.get_by_role("button", name="Show where the two part on A").click()
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("done")
    seen.hash("against=bad")

    again = visitor.open(service.url, "#" + seen.page.url.partition("#")[2])

    expect(again.page.locator("#compared")).to_contain_text("Where they differ")
    again.page.keyboard.press("m")
    expect(again.page.locator("#stage-other")).to_have_count(0)


def test_with_nothing_to_compare_that_is_said(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.page.keyboard.press("m")

    expect(seen.notice).to_contain_text("no other execution")
