"""While it runs: new reports appear, tokens are asked for, a service that is gone is said to be gone."""

from __future__ import annotations

from pathlib import Path

from browsing import FEW, Serve, Visitor, expect

from beforehand.events import Event
from service.servers import tokens_for


def test_new_events_appear_while_one_looks(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW[:2])
    seen = visitor.open(service.url)
    seen.page.keyboard.press("v")
    expect(seen.page.locator("#live")).to_have_attribute("aria-pressed", "true")

    service.report(FEW[2:])

    expect(seen.page.locator("#facts")).to_contain_text("6 events")
    expect(seen.pane.locator(".tag")).to_have_text(["A", "B", "C"])
    seen.page.wait_for_function("() => beforehand.pane.spots.length === 6")
    seen.choose("A:3")
    expect(seen.details.locator(".led .id")).to_have_text(["B:2", "B:1", "A:2", "A:1"])


def test_an_empty_store_is_followed_until_something_comes(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    seen = visitor.open(service.url)
    expect(seen.page.locator("#live")).to_have_attribute("aria-pressed", "true")

    service.report(FEW)

    seen.page.wait_for_function("() => beforehand.pane.spots.length === 6")
    expect(seen.page.locator(".nothing")).to_be_hidden()
    expect(seen.page.locator("#facts")).to_contain_text("6 events")
    seen.choose("B:1")


def test_who_looks_at_the_end_stays_at_the_end(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([Event(process="a", index=at, time=at * 1000) for at in range(1, 400)])
    seen = visitor.open(service.url)
    for _ in range(3):
        seen.page.keyboard.press("+")
    seen.page.keyboard.press("End")
    seen.settled()
    seen.page.keyboard.press("v")

    service.report([Event(process="a", index=at, time=at * 1000) for at in range(400, 480)])

    seen.page.wait_for_function(
        "() => beforehand.pane.spots.some((one) => one.event.index === 479 && one.x < beforehand.pane.camera.width)"
    )
    assert seen.place("a:400") is not None


def test_a_token_is_asked_for_and_kept_in_the_tab_only(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    visitor.expected.append("401 (Unauthorized)")
    tokens = tokens_for(tmp_path)
    service = serve(token=tokens["admin"])
    service.report(FEW)
    seen = visitor.open(service.url, ready=False)
    dialog = seen.page.locator("#token")
    expect(dialog).to_be_visible()

    seen.page.get_by_label("Token", exact=True).fill("bh_wrong_wrong")
    seen.page.get_by_role("button", name="Use it").click()
    expect(seen.page.locator("#token-why")).to_contain_text("does not hold")
    seen.page.get_by_label("Token", exact=True).fill(tokens["read"])
    seen.page.keyboard.press("Enter")
    seen.settled()

    assert len(seen.roles()) == 6
    assert seen.js("() => localStorage.length") == 0
    assert seen.js("() => sessionStorage.length") == 1
    assert tokens["read"] not in seen.page.url
    seen.page.reload()
    seen.settled()
    assert len(seen.roles()) == 6


def test_without_a_token_nothing_is_shown(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    visitor.expected.append("401 (Unauthorized)")
    tokens = tokens_for(tmp_path)
    service = serve(token=tokens["admin"])
    service.report(FEW)
    seen = visitor.open(service.url, ready=False)

    seen.page.get_by_role("button", name="Cancel").first.click()

    expect(seen.notice).to_contain_text("token is needed")
    assert "ask" not in seen.page.locator("main").inner_text().split()


def test_a_service_that_is_gone_is_said_to_be_gone(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    visitor.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    service.stop()

    seen.click("B:1")

    expect(seen.notice).to_contain_text("does not answer")
    assert len(seen.roles()) == 6  # What is loaded stays.
