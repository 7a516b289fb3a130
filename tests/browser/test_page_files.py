"""Files in and out: drag and drop, SVG and PNG; and names that try to be more than names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from browsing import FEW, HOSTILE, Serve, Visitor, expect

from beforehand.events import Event
from beforehand.formats import write_events

SHIVIZ = """sends the question
alice {"alice":1}
gets the question
bob {"bob":1, "alice":1}
sends the answer
bob {"bob":2, "alice":1}
gets the answer
alice {"alice":2, "bob":2}
"""
SCRIPT = "<script>document.title='broken'</script>"
BIDI = "user\u202enimda\u2066 \u0007bell"


def test_a_shiviz_log_dropped_on_the_page_is_drawn(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    service = serve()
    seen = visitor.open(service.url)
    log = tmp_path / "talk.log"
    log.write_text(SHIVIZ)

    seen.drop(log)

    expect(seen.notice).to_contain_text("talk.log (shiviz): 4 events")
    seen.settled()
    assert sorted(seen.roles()) == ["alice:1", "alice:2", "bob:1", "bob:2"]
    expect(seen.page.locator("#axis [aria-pressed=true]")).to_have_text("Steps")
    seen.choose("bob:2")
    expect(seen.details.locator(".led .id")).to_have_text(["bob:1", "alice:1"])
    seen.page.keyboard.press("c")
    expect(seen.page.locator("#cut-says")).to_contain_text("consistent")
    seen.hash("source=imp-")
    again = visitor.open(service.url, "#" + seen.page.url.partition("#")[2])
    assert len(again.roles()) == 4


def test_from_a_dropped_file_one_comes_back_to_the_service(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    log = tmp_path / "talk.log"
    log.write_text(SHIVIZ)
    seen.drop(log)
    expect(seen.page.locator("#facts")).to_contain_text("4 events")

    seen.page.locator("#execution").select_option(label="This service")

    expect(seen.page.locator("#facts")).to_contain_text("6 events")
    seen.page.locator("#execution").select_option(label="talk.log")
    expect(seen.page.locator("#facts")).to_contain_text("4 events")


def test_a_link_to_a_forgotten_file_is_said_and_the_service_is_shown(visitor: Visitor, serve: Serve) -> None:
    visitor.expected.append("404 (Not Found)")
    service = serve()
    service.report(FEW)

    seen = visitor.open(service.url, "#source=imp-0123456789")

    expect(seen.notice).to_have_class("wrong")
    assert len(seen.roles()) == 6


def test_a_file_that_is_no_log_is_refused_in_one_line(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    visitor.expected += ["400 (Bad Request)", "415 (Unsupported Media Type)"]
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)

    seen.drop(picture)

    expect(seen.notice).to_have_class("wrong")
    expect(seen.notice).to_contain_text("picture.png")
    assert "\n" not in seen.notice.inner_text()
    assert len(seen.roles()) == 6  # What was looked at is still there.


def test_a_dropped_file_can_be_compared_with_the_store(visitor: Visitor, serve: Serve, tmp_path: Path) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)
    log = tmp_path / "talk.log"
    log.write_text(SHIVIZ)
    seen.drop(log)
    expect(seen.notice).to_contain_text("4 events")
    seen.settled()

    seen.page.keyboard.press("m")
    seen.page.locator("#choosing").get_by_role("button", name="Compare").click()

    expect(seen.page.locator("#compared")).to_contain_text("Where they differ")
    expect(seen.page.locator("#compared li")).to_have_count(5)


def test_the_picture_is_saved_as_svg_with_what_is_on_the_screen(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([replace(FEW[0], name=HOSTILE), *FEW[1:]])
    seen = visitor.open(service.url)
    seen.choose("B:1")

    seen.page.keyboard.press("e")
    with seen.page.expect_download() as saved:
        seen.page.get_by_role("button", name="Picture as SVG").click()

    svg = Path(saved.value.path()).read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"asked", "think", "apart", "A", "B", "C"} <= set(texts)
    assert not any(tag in svg for tag in ("<script", "<img", 'onerror="'))
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 12


def test_the_picture_is_saved_as_png(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)
    seen = visitor.open(service.url)

    seen.page.keyboard.press("e")
    with seen.page.expect_download() as saved:
        seen.page.get_by_role("button", name="Picture as PNG").click()

    content = Path(saved.value.path()).read_bytes()
    assert content.startswith(b"\x89PNG")
    width = int.from_bytes(content[16:20], "big")
    assert width > 2 * seen.canvas.bounding_box()["width"]


def test_hostile_names_stay_text(visitor: Visitor, serve: Serve) -> None:
    long = "x" * 10_000
    service = serve()
    service.report(
        [
            Event(process=HOSTILE, index=1, name=HOSTILE, sends=(HOSTILE,), attributes={HOSTILE: HOSTILE}, time=1),
            Event(process=BIDI, index=1, name=BIDI, receives=(HOSTILE,), time=2),
            Event(process="p" * 10_000, index=1, name=long, attributes={long: long, "note": BIDI}, time=3),
        ]
    )
    seen = visitor.open(service.url)

    for number in range(3):
        name = seen.js(
            f"() => {{ const e = beforehand.pane.spots[{number}].event;"
            " return beforehand.pane.named(e.lane, e.index); }"
        )
        seen.choose(name)
        seen.page.mouse.move(*seen.place(name).values())
        expect(seen.page.locator("#tip")).to_be_visible()
    seen.page.keyboard.press("l")
    expect(seen.page.locator("#listing tbody tr")).to_have_count(3)

    assert seen.page.locator("img").count() == 1  # The sign of the page itself.
    assert seen.page.locator("script").count() == 1
    assert seen.page.title() == "Beforehand"
    assert all(ord(sign) not in range(0x202A, 0x202F) for sign in seen.page.locator("body").inner_text())


def test_a_script_as_the_name_of_anything_is_shown_to_the_letter(
    visitor: Visitor, serve: Serve, tmp_path: Path
) -> None:
    sends = Event(
        execution=SCRIPT, process=SCRIPT, index=1, name=SCRIPT, sends=(SCRIPT,), attributes={SCRIPT: SCRIPT}, time=1
    )
    receives = Event(execution=SCRIPT, process="b", index=1, name="b", receives=(SCRIPT,), time=2)
    service = serve()
    service.report([sends, receives, replace(sends, name=f"{SCRIPT} once more")])
    seen = visitor.open(service.url)

    tag = seen.pane.locator(".tag").first
    expect(tag).to_have_text(re.compile("^<sc.*….*pt>$"))  # Cut in the middle; the title has it whole.
    expect(tag).to_have_attribute("title", f"{SCRIPT}: 1 event")
    executions = seen.page.get_by_label("Execution", exact=True).first.locator("option")
    expect(executions).to_have_text([f"{SCRIPT} · 2 events"])
    seen.choose(f"{SCRIPT}:1")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text(SCRIPT)
    expect(seen.details.locator("dt").get_by_text(SCRIPT, exact=True)).to_have_count(2)  # Attribute, stamp.
    assert seen.details.locator("dd").get_by_text(SCRIPT, exact=True).count() >= 3  # Process, execution, attribute.
    expect(seen.details.locator("pre")).to_contain_text(f"{SCRIPT} once more")
    seen.choose("b:1")
    expect(seen.details.locator(".jump")).to_have_attribute("title", f"{SCRIPT}/{SCRIPT}:1: {SCRIPT}")
    seen.page.keyboard.press("l")
    expect(seen.page.locator("#listing tbody tr").first).to_contain_text(SCRIPT)
    seen.page.keyboard.press("Escape")
    write_events([sends, receives], tmp_path / "events.jsonl")
    seen.drop(tmp_path / "events.jsonl", f"{SCRIPT}.jsonl")
    expect(seen.notice).to_contain_text(f"{SCRIPT}.jsonl (native): 2 events")
    expect(seen.page.locator("#execution optgroup").first).to_have_attribute("label", f"{SCRIPT}.jsonl")

    assert seen.page.locator("script").count() == 1
    assert seen.page.title() == f"{SCRIPT} · Beforehand"


def test_two_reports_of_an_event_that_differ_are_both_shown(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report(FEW)

    receipt = service.report([replace(FEW[0], name="ask again"), replace(FEW[0], attributes={"order": "4712"})])

    assert receipt["conflicts"] == 2
    seen = visitor.open(service.url)
    seen.choose("A:1")
    expect(seen.details.get_by_role("heading", level=2)).to_have_text("ask")
    expect(seen.details).to_contain_text("Reports that differ")
    expect(seen.details.locator("pre")).to_contain_text(['"name": "ask again"', '"order": "4712"'])
    seen.choose("A:2")
    expect(seen.details.locator("pre")).to_have_count(0)


def test_a_long_name_is_cut_in_the_picture_and_whole_in_the_details(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([Event(process="a", index=1, name="y" * 10_000, time=1), Event(process="b", index=1, time=2)])
    seen = visitor.open(service.url)

    seen.choose("a:1")

    assert len(seen.details.get_by_role("heading", level=2).inner_text()) <= 160
    assert seen.details.locator("p.long").inner_text() == "y" * 10_000
    box = seen.page.locator("aside").bounding_box()
    assert box["x"] + box["width"] <= 1200


def test_characters_that_reorder_are_shown_by_their_number(visitor: Visitor, serve: Serve) -> None:
    service = serve()
    service.report([Event(process="a", index=1, name=BIDI, time=1)])
    seen = visitor.open(service.url)

    seen.choose("a:1")

    expect(seen.details.get_by_role("heading", level=2)).to_have_text("user⟨U+202E⟩nimda⟨U+2066⟩ ␇bell")
    assert re.search("isolate", seen.js("() => getComputedStyle(document.querySelector('#details bdi')).unicodeBidi"))
