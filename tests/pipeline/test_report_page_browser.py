"""The report page in a real browser: it sorts, filters, unfolds, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_report_page_shop import shop_pictures, shop_report

from beforehand.pipeline.report import report_page
from drawn_pages import Diagram, launched

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = shop_report()
    names = [f"worker-{number}" for number in range(1, 21)]
    # Twenty workers more, so that there is something to sort and to filter.
    report["processes_table"] += [  # type: ignore[operator]
        {"process": name, "events": 7 * number % 20, "sends": None, "receives": 1, "gaps": 0}
        for number, name in enumerate(names)
    ]
    for row, nanosecond in zip(report["processes_table"][-3:], (2, 3, 1), strict=True):  # type: ignore[index]
        row["last_time"] = 1_790_000_000 * 10**9 + nanosecond
    failure = report["failures"][0]  # type: ignore[index]
    report["failures"] = [failure, {**failure, "event": "orders:99", "name": "<img src=x onerror=alert(1)>"}]
    report["failures_total"] = 2
    path = tmp_path_factory.mktemp("report") / "report.html"
    pictures = shop_pictures()
    path.write_text(report_page(report, pictures | {"failure:1": pictures["failure:0"]}), encoding="utf-8")
    return path


VIOLATION = 2  # The number of its diagram: two failures come first, the second of them folded away.


class Opened:
    """A page, what it complained about and what it asked the network for."""

    def __init__(self, page: object, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))  # type: ignore[attr-defined]
        page.on("pageerror", lambda error: self.complaints.append(str(error)))  # type: ignore[attr-defined]
        page.on("request", lambda request: self.requests.append(request.url))  # type: ignore[attr-defined]
        page.goto(path.as_uri())  # type: ignore[attr-defined]


@pytest.fixture
def opened(browser, file: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = Opened(context.new_page(), file)
    yield opened
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    context.close()


def first_column(page, label: str) -> list[str]:
    return page.get_by_role("table", name=label).locator("tbody tr:visible td:first-child").all_inner_texts()


def test_the_headline_is_there_and_nothing_is_fetched(opened: Opened) -> None:
    sync_api.expect(opened.page.get_by_role("heading", level=1)).to_have_text(
        "First failure: checkout failed, on orders"
    )


def test_a_click_sorts_by_a_column_and_another_one_turns_it_round(opened: Opened) -> None:
    page = opened.page
    table = page.get_by_role("table", name="Processes")

    table.get_by_role("button", name="process").click()
    upwards = first_column(page, "Processes")
    table.get_by_role("button", name="process").click()
    downwards = first_column(page, "Processes")

    assert upwards[:3] == ["cart", "mail", "orders"]
    assert upwards[-3:] == ["worker-18", "worker-19", "worker-20"]
    assert downwards == upwards[::-1]
    sync_api.expect(table.get_by_role("columnheader", name="process")).to_have_attribute("aria-sort", "descending")


def test_numbers_are_sorted_as_numbers_from_the_largest_and_the_unknown_last(opened: Opened) -> None:
    page = opened.page
    table = page.get_by_role("table", name="Processes")

    table.get_by_role("button", name="sends").press("Enter")
    sends = table.locator("tbody td:nth-child(3)").all_inner_texts()

    known = [int(text) for text in sends if text != "not known"]
    assert known == sorted(known, reverse=True)
    assert sends[len(known) :] == ["not known"] * 20


def test_times_are_sorted_to_the_nanosecond(opened: Opened) -> None:
    page = opened.page
    column = page.get_by_role("table", name="Processes").locator("tbody td:nth-child(6)")

    page.get_by_role("button", name="last time").click()

    assert [text for text in column.all_inner_texts() if text != "no time"][:3] == [
        "2026-09-21T14:13:20.000000001Z",
        "2026-09-21T14:13:20.000000002Z",
        "2026-09-21T14:13:20.000000003Z",
    ]


def test_the_filter_leaves_the_rows_that_match(opened: Opened) -> None:
    page = opened.page

    page.get_by_label("Show only rows with").fill("worker-2")

    assert first_column(page, "Processes") == ["worker-2", "worker-20"]


def test_a_link_unfolds_what_it_points_to(opened: Opened) -> None:
    page = opened.page
    second = page.locator("#failure-1")
    assert second.get_attribute("open") is None

    page.evaluate("location.hash = '#failure-1'")

    sync_api.expect(second).to_have_attribute("open", "")


def test_items_fold_with_the_keyboard(opened: Opened) -> None:
    page = opened.page

    page.locator("#failure-0 > summary").press("Enter")

    sync_api.expect(page.locator("#failure-0 table")).to_be_hidden()


def test_arrows_keep_their_heads_when_pictures_share_them(opened: Opened) -> None:
    page = opened.page

    lost = page.evaluate(
        """[...document.querySelectorAll("path[marker-end]")].filter(
            (path) => !document.querySelector(path.getAttribute("marker-end").slice(4, -1))).length"""
    )

    assert lost == 0


def test_a_wide_diagram_starts_at_the_failure(opened: Opened) -> None:
    diagram = Diagram(opened.page, 0)

    assert diagram.chosen == "orders:17"
    assert diagram.place("orders:17") is not None
    sync_api.expect(diagram.details.locator("h2")).to_have_text("checkout failed")
    sync_api.expect(diagram.details.locator(".led li")).to_have_count(25)


def test_a_violation_is_drawn_with_its_signs(opened: Opened) -> None:
    diagram = Diagram(opened.page, VIOLATION)

    drawn = diagram.ask(
        "({pane}) => pane.spots.filter(({event}) => event.violation).map(({event}) => event.id).sort()"
    )

    assert drawn == ["orders:16", "orders:18"]
    assert (194, 24, 58) in diagram.colours()


def test_diagrams_of_one_report_do_not_disturb_each_other(opened: Opened) -> None:
    first, second = Diagram(opened.page, 0), Diagram(opened.page, VIOLATION)
    before = first.ask("({pane}) => pane.camera.scale"), first.ask("({pane}) => pane.camera.range")

    second.host.scroll_into_view_if_needed()
    second.search.fill("checkout failed")
    second.search.press("Enter")
    sync_api.expect(second.details.locator(".counts")).to_be_visible()
    second.host.locator("#stage-main canvas").focus()
    for key in ("+", "c", "l", "s"):
        opened.page.keyboard.press(key)
        second.settled()

    assert second.chosen == "orders:17"
    sync_api.expect(second.host.locator("#cut-bar")).to_be_hidden()  # Another axis needs another cut.
    sync_api.expect(second.host.locator("#listing")).to_be_visible()
    sync_api.expect(second.host.locator("#axis [aria-pressed=true]")).to_have_text("Time")
    sync_api.expect(first.host.locator("#axis [aria-pressed=true]")).to_have_text("Steps")
    sync_api.expect(first.host.locator("#listing")).to_be_hidden()
    sync_api.expect(first.search).to_have_value("")
    assert (first.ask("({pane}) => pane.camera.scale"), first.ask("({pane}) => pane.camera.range")) == before
    assert opened.page.evaluate("location.hash") == ""


def test_the_wheel_over_a_diagram_scrolls_the_report_and_zooms_with_ctrl(opened: Opened) -> None:
    page, diagram = opened.page, Diagram(opened.page, 0)
    diagram.host.scroll_into_view_if_needed()
    scale, top = diagram.ask("({pane}) => pane.camera.scale"), page.evaluate("scrollY")
    place = diagram.place("orders:17")
    assert place is not None
    page.mouse.move(place["x"], place["y"])

    page.mouse.wheel(0, 120)
    page.wait_for_function("(top) => scrollY > top", arg=top)
    assert diagram.ask("({pane}) => pane.camera.scale") == scale
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")

    page.wait_for_function("(scale) => beforehand.pane.camera.scale > scale", arg=scale)


def test_keys_outside_of_the_diagrams_mean_nothing_to_them(opened: Opened) -> None:
    diagram = Diagram(opened.page, 0)

    opened.page.get_by_label("Show only rows with").fill("c")
    opened.page.get_by_label("Show only rows with").press("Escape")
    opened.page.keyboard.press("c")
    diagram.settled()

    sync_api.expect(diagram.host.locator("#cut-bar")).to_be_hidden()
    assert diagram.chosen == "orders:17"


def test_a_diagram_that_is_folded_away_comes_when_it_is_unfolded(opened: Opened) -> None:
    page = opened.page
    host = page.locator("#failure-1 [data-diagram]")
    Diagram(page, VIOLATION)
    assert host.evaluate("(host) => host.shadowRoot") is None

    page.locator("#failure-1 > summary").click()

    assert Diagram(page, 1).chosen == "orders:17"
    sync_api.expect(host.locator("#stage")).to_be_visible()


def test_without_a_script_and_on_paper_the_diagrams_are_drawings(browser, file: Path) -> None:
    for settings, medium in (({"java_script_enabled": False}, "screen"), ({}, "print")):
        context = browser.new_context(**settings)
        page = context.new_page()
        page.emulate_media(media=medium)
        page.goto(file.as_uri())
        sync_api.expect(page.locator("#failure-0 .picture svg.st")).to_be_visible()
        assert page.locator("#failure-0 #stage:visible").count() == 0
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_but_the_tables_and_pictures_scrolls_sideways(browser, file: Path, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    opened = Opened(context.new_page(), file)

    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
    assert opened.complaints == []
    context.close()
