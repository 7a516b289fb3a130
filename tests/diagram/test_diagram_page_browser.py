"""The diagram page in a real browser: zoom, search, choosing, folding, by mouse and keyboard; nothing is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beforehand.cli.shop import shop_run
from beforehand.diagram import LayoutOptions, Marks, diagram_page
from beforehand.events import Event
from beforehand.history import History

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

HOSTILE = '</script><img src=x onerror="document.title=1">'
WORK = [
    Event(process="A", index=1, name="ask", sends=("m",), attributes={"order": "4711"}),
    *(Event(process="A", index=index, name=f"think {index}") for index in range(2, 9)),
    Event(process="B", index=1, name=HOSTILE, receives=("m",), attributes={HOSTILE: HOSTILE}),
    Event(process="B", index=2, name="answer", sends=("n",)),
    Event(process="A", index=9, name="done", receives=("n",)),
    Event(process="C", index=1, name="apart", time=1_500_000_000),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Reader:
    """Opens pages; no page may complain or ask the network for anything."""

    def __init__(self, browser, folder: Path) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 700}, reduced_motion="reduce")
        self.file = folder / "diagram.html"
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, document: str):
        self.file.write_text(document, encoding="utf-8")
        page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.file.as_uri())
        return page


@pytest.fixture
def reader(browser, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(browser, tmp_path)
    yield reader
    assert reader.complaints == []
    assert reader.requests == [reader.file.as_uri()]
    reader.context.close()


def named(page, role: str) -> list[str]:
    """The labels of the events that have this role in the drawing that is shown."""
    return page.locator(f".drawing:not([hidden]) a[data-place]:has(g.event.{role})").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('aria-label').split(', ').at(-2)).sort()"
    )


def event(page, identity: str):
    return page.locator(f'.drawing:not([hidden]) a[data-place][aria-label*="{identity},"]')


def scale(page) -> int:
    return int(page.locator("#scale").inner_text().removesuffix(" %"))


def test_choosing_an_event_shows_all_of_it_and_marks_its_past_and_future(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))

    event(page, "B:2").click()

    assert named(page, "selected") == ["B:2"]
    assert named(page, "past") == ["A:1", "B:1"]
    assert named(page, "future") == ["A:9"]
    assert "C:1" in named(page, "concurrent")
    assert "A:5" in named(page, "concurrent")
    details = page.locator("#details")
    sync_api.expect(details.get_by_role("heading", level=2)).to_have_text("answer")
    sync_api.expect(details.locator(".counts .past b")).to_have_text("2")
    sync_api.expect(details.get_by_role("button", name="A:9")).to_be_visible()


def test_the_signs_change_with_the_roles_so_that_colour_is_not_the_only_one(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))

    event(page, "B:2").click()

    assert event(page, "B:2").locator(".ring").count() == 1
    assert event(page, "B:1").locator(".half").count() == 1
    assert page.locator('path.arrow.past[marker-end="url(#st-head-past)"]').count() == 1
    assert page.locator(".span.live").count() == 4


def test_text_of_events_stays_text_in_the_panel(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK, title="safe"))

    event(page, "B:1").click()

    sync_api.expect(page.locator("#details h2")).to_have_text(HOSTILE)
    sync_api.expect(page.locator("#details dt").last).to_have_text(HOSTILE)
    assert page.locator("img").count() == 0
    assert page.title() == "safe"


def test_a_message_in_the_panel_leads_to_the_event_at_its_other_end(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))
    event(page, "B:2").click()

    page.locator("#details").get_by_role("button", name="A:9").click()

    assert named(page, "selected") == ["A:9"]


def test_search_finds_by_name_process_id_attribute_and_message_and_goes_on_and_back(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))
    search, found = page.get_by_role("searchbox"), page.locator("#found")

    for wanted, times in (
        ("THINK", "1 of 7"),
        ("order=4711", "1 of 1"),
        ("b:2", "1 of 1"),
        ("nowhere", "none found"),
    ):
        search.fill(wanted)
        sync_api.expect(found).to_have_text(times)
    search.fill("think")
    search.press("Enter")
    assert named(page, "selected") == ["A:2"]
    search.press("Enter")
    assert named(page, "selected") == ["A:3"]
    page.get_by_role("button", name="Previous match").click()
    page.get_by_role("button", name="Previous match").click()
    assert named(page, "selected") == ["A:8"]
    sync_api.expect(found).to_have_text("7 of 7")


def test_zoom_works_by_buttons_keys_and_wheel(reader: Reader) -> None:
    page = reader.open(diagram_page(shop_run(seed=1)))
    assert scale(page) == 100
    width = page.locator(".drawing:not([hidden]) svg").bounding_box()["width"]

    page.get_by_role("button", name="Zoom in").click()
    assert scale(page) == 125
    assert page.locator(".drawing:not([hidden]) svg").bounding_box()["width"] == pytest.approx(width * 1.25, abs=1)
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert scale(page) == 80
    page.locator("#stage").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("parseInt(document.getElementById('scale').textContent) > 100")
    page.get_by_role("button", name="Fit the whole diagram").click()
    box, stage = page.locator(".drawing:not([hidden]) svg").bounding_box(), page.locator("#stage").bounding_box()
    assert box["width"] <= stage["width"] + 1


def test_dragging_moves_the_drawing_and_chooses_nothing(reader: Reader) -> None:
    page = reader.open(diagram_page(shop_run(seed=1)))

    page.mouse.move(500, 300)
    page.mouse.down()
    page.mouse.move(200, 300, steps=4)
    page.mouse.up()

    assert page.locator("#stage").evaluate("(stage) => stage.scrollLeft") == 300
    assert named(page, "selected") == []
    sync_api.expect(page.locator("#lanes")).to_have_class("lanes shown")


def test_the_wheel_goes_along_a_diagram_that_is_only_wide(reader: Reader) -> None:
    page = reader.open(diagram_page(shop_run(seed=1)))

    page.locator("#stage").hover()
    page.mouse.wheel(0, 200)

    page.wait_for_function("document.getElementById('stage').scrollLeft > 0")


def test_the_keyboard_alone_is_enough(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))

    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    assert named(page, "selected") == ["A:1"]
    page.keyboard.press("ArrowRight")
    assert named(page, "selected") == ["A:2"]
    page.keyboard.press("End")
    assert named(page, "selected") == ["A:9"]
    page.keyboard.press("ArrowDown")
    assert named(page, "selected")[0] != "A:9"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    page.keyboard.press("Escape")
    assert named(page, "selected") == []
    sync_api.expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("/")
    sync_api.expect(page.get_by_role("searchbox")).to_be_focused()


def test_one_event_is_in_the_tab_order(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))

    event(page, "B:2").click()

    assert page.locator('.drawing:not([hidden]) a[tabindex="0"]').count() == 1


def test_local_events_fold_and_unfold_and_what_is_chosen_stays_chosen(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK))
    fold = page.get_by_role("button", name="Fold local events")
    event(page, "A:5").click()

    fold.click()
    sync_api.expect(fold).to_have_attribute("aria-pressed", "true")
    sync_api.expect(page.locator("#details h2")).to_have_text("7 local events")
    assert page.locator(".drawing:not([hidden]) .run").count() >= 1
    page.locator(".drawing:not([hidden])").locator('a[aria-label*="A:9,"]').click()
    assert page.locator("#details .counts .past b").inner_text() == "4"
    fold.click()

    assert named(page, "selected") == ["A:9"]
    assert page.locator("#details .counts .past b").inner_text() == "10"


def test_the_warning_is_that_of_the_drawing_that_is_shown(reader: Reader) -> None:
    events = [Event(process="A", index=index) for index in range(1, 31)]
    page = reader.open(diagram_page(events, options=LayoutOptions(events_max=20)))
    sync_api.expect(page.get_by_role("note")).to_have_text("⚠ 10 of 30 events are not drawn.")

    page.get_by_role("button", name="Fold local events").click()

    sync_api.expect(page.get_by_role("note")).to_have_count(0)


def test_the_selected_event_of_the_marks_is_chosen_and_in_sight(reader: Reader) -> None:
    history = History(shop_run(seed=1))
    page = reader.open(diagram_page(history.order(), marks=Marks(selected=history.event("orders:17").id)))

    sync_api.expect(page.locator("#details h2")).to_have_text("checkout failed")
    sync_api.expect(event(page, "orders:17")).to_be_in_viewport()
    assert len(named(page, "past")) == len(history.past("orders:17"))


def test_marks_without_a_choice_come_back_when_nothing_is_chosen(reader: Reader) -> None:
    page = reader.open(diagram_page(WORK, marks=Marks(past=[WORK[0].id])))
    assert named(page, "past") == ["A:1"]

    event(page, "C:1").click()
    assert named(page, "past") == []
    page.keyboard.press("Escape")

    assert named(page, "past") == ["A:1"]


def test_a_large_diagram_opens_and_is_searched(reader: Reader) -> None:
    events = [
        Event(process=f"p{number % 25}", index=1 + number // 25, name=f"step {number}", sends=(f"m{number}",))
        for number in range(2_000)
    ]
    page = reader.open(diagram_page(events))

    page.get_by_role("searchbox").fill("step 1999")
    page.get_by_role("searchbox").press("Enter")

    sync_api.expect(page.locator("#details h2")).to_have_text("step 1999")
    sync_api.expect(event(page, "p24:80")).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_drawing_and_panel_without_scrolling_the_page(browser, tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "diagram.html"
    file.write_text(
        diagram_page(shop_run(seed=1), title="A long title that has no room on a phone"), encoding="utf-8"
    )
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    page = context.new_page()

    page.goto(file.as_uri())
    page.locator("a[data-place]").first.tap()

    assert page.evaluate("document.documentElement.scrollWidth") == 360
    sync_api.expect(page.locator("#details h2")).to_be_in_viewport()
    assert page.locator("#stage").bounding_box()["height"] > 250
    context.close()


def test_an_empty_diagram_opens(reader: Reader) -> None:
    page = reader.open(diagram_page([]))

    page.keyboard.press("+")

    sync_api.expect(page.locator("#help")).to_be_visible()
