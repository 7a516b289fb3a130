"""The report page as a document: it says what is wrong, takes any report, and text in it stays text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_report_page_shop import SHOP, Page, check_page, shop_report

from beforehand.pipeline.report import report_page


def test_without_failures_the_headline_says_how_many_violations() -> None:
    page = check_page(report_page({**shop_report(), "failures": [], "failures_total": 0}, {}))

    assert "No event failed, but 1 violation was found" in page.text


def test_a_clean_report_says_that_nothing_wrong_was_found() -> None:
    clean = {
        "events": 5,
        "failures": [],
        "failures_total": 0,
        "violations": {"fifo": 0, "causal": 0, "total": 0, "clock": 0},
    }

    assert "Nothing wrong was found" in check_page(report_page(clean, {})).text


def test_what_was_not_checked_is_said_in_the_headline_and_why_beside_the_check() -> None:
    report = {
        "events": 5,
        "failures": [],
        "violations": {"fifo": 0, "causal": None},
        "notes": ["causal order: no real message, so it could not be checked"],
    }

    text = check_page(report_page(report, {})).text

    assert "Not judged: causal order." in text
    assert "not known: causal order: no real message" in text


def test_orders_that_were_never_judged_are_not_called_in_order() -> None:
    why = "all 584 receives are of inferred messages"
    unjudged = {"judged": 0, "of": 584, "why": why}
    report = {
        "events": 1_320,
        "failures": [],
        "violations": {"fifo": None, "causal": None, "total": None, "clock": None},
        "judged": {
            **dict.fromkeys(("fifo", "causal", "total"), unjudged),
            "clock": {"judged": 0, "of": 1_320, "why": "no event reports a clock"},
        },
    }

    text = check_page(report_page(report, {})).text

    assert "No event failed; the order of messages was not judged" in text
    assert f"Not judged: FIFO order, causal order, total order ({why})." in text
    assert "not judged: no event reports a clock" in text
    assert "✓" not in text
    assert "Nothing wrong was found" not in text


def test_right_clocks_do_not_say_that_messages_were_in_order() -> None:
    report = {"events": 5, "failures": [], "violations": {"fifo": None, "clock": 0}}

    text = check_page(report_page(report, {})).text

    assert "No event failed, the reported clocks are right; the order of messages was not judged" in text


def test_an_order_that_was_judged_in_part_says_so() -> None:
    report = {
        "events": 5,
        "failures": [],
        "violations": {"fifo": 0, "clock": None},
        "judged": {"fifo": {"judged": 3, "of": 4, "why": "1 receives are of inferred messages"}},
    }

    text = check_page(report_page(report, {})).text

    assert "Nothing wrong was found" in text
    assert "Order was judged by 3 of 4 receives: 1 receives are of inferred messages." in text


@pytest.mark.parametrize("report", [{}, {"events": 0, "failures": [], "processes_table": []}])
def test_an_empty_report_is_a_page_too(report: dict[str, object]) -> None:
    text = check_page(report_page(report, {})).text

    assert "Nothing wrong was found" not in text


@pytest.mark.parametrize("key", sorted(shop_report()))
@pytest.mark.parametrize(
    "value", [None, "absent", 0, [], {}, "text", [None, 1, "x", []], float("nan"), 10**400, True]
)
def test_any_key_may_be_absent_null_or_of_another_type(key: str, value: object) -> None:
    report = shop_report()
    report[key] = value
    if value == "absent":
        del report[key]

    check_page(report_page(report, {}))


def nulled(value: object) -> object:
    """The same with null for every figure and text."""
    if isinstance(value, dict):
        return {key: nulled(one) for key, one in value.items()}
    return [nulled(one) for one in value] if isinstance(value, list) else None


def test_all_figures_may_be_null_at_once() -> None:
    report = nulled(shop_report())
    assert isinstance(report, dict)

    assert "not known" in check_page(report_page(report, {})).text


def test_an_unknown_figure_gives_the_reason_of_its_note() -> None:
    reason = "no message has times at both ends: delays, synchrony and clock offsets are unknown"
    report = {"events": 3, "synchrony": {"tightness_ns": None}, "notes": [reason]}

    assert check_page(report_page(report, {})).text.count(f"not known: {reason}") >= 3


def test_long_lists_are_cut_and_the_page_says_where_the_rest_is() -> None:
    report = shop_report()
    witness = report["witnesses"][0]  # type: ignore[index]
    report |= {
        "violations": {"causal": 1_234},
        "witnesses": [witness] * 300,
        "processes": 9_000,
        "processes_table": [{"process": f"p{number}"} for number in range(500)],
        "failures": [{"event": f"p:{number}", "events": None} for number in range(1_000)],
        "failures_total": 40_000,
    }

    document = report_page(report, {})
    text = check_page(document).text

    assert "and 1,184 more; see violations/ or beforehand check" in text
    assert "and 8,500 more; see events/" in text
    assert "and 39,800 more; see report.json or beforehand find" in text
    assert len(document) < 1_000_000


# Text from strangers.

HOSTILE = st.one_of(
    st.sampled_from(
        [
            "</script><script>alert(1)</script>",
            "</script ><b ",
            "<!--<script ",
            '"><img src=x onerror=alert(1)>',
            "' onmouseover='alert(1)",
            "</title></style></svg><b>",
            "<!-- ",
            "]]>",
            "&lt;script&gt;",
            "a\u2028b\u2029c",
            "\u202eevil\u2066",
            "\ud800",
            "\x00\x1b[31m",
            "javascript:alert(1)",
            "\uffff",
            "{{7*7}}",
        ]
    ),
    st.text(st.characters(), max_size=30),
)


def hostile_report(words: Iterator[str]) -> dict[str, object]:
    """The shop's report with every text and every free key replaced."""

    def changed(value: object, *, free: bool = False) -> object:
        if isinstance(value, dict):
            return {next(words) if free else key: changed(one, free=key in FREE) for key, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        return next(words) if isinstance(value, str) else value

    report = changed(small_report())
    assert isinstance(report, dict)
    return report


FREE = {"attributes", "clocks", "rejected_reasons", "seconds", "violations"}


def small_report() -> dict[str, object]:
    report = json.loads(json.dumps(SMALL))
    assert isinstance(report, dict)
    return report


SMALL = shop_report()
for _failure in SMALL["failures"]:  # type: ignore[attr-defined]
    _failure["events"] = _failure["events"][-2:]
SMALL["failures"].append({**SMALL["failures"][0], "events": None})  # type: ignore[attr-defined,index]
FORM = {
    tag: times for tag, times in Page(report_page(SMALL, {})).elements.items() if tag not in ("svg", "line", "text")
}


@settings(max_examples=60)
@given(st.lists(HOSTILE, min_size=1, max_size=12))
def test_no_text_in_any_field_becomes_markup(words: list[str]) -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield words[number % len(words)]

    document = report_page(hostile_report(endless()), {})
    page = check_page(document)

    assert page.elements.keys() <= FORM.keys() | {"svg", "line", "text"}
    assert page.scripts == Page(report_page({}, {})).scripts
    assert not re.search("[\u2028\u2029\u202a-\u202e\u2066-\u2069\x00-\x08]", document)


def test_markup_in_a_name_is_shown_as_text() -> None:
    report = shop_report()
    report["failures"][0]["name"] = "<b>boom</b>"  # type: ignore[index]

    page = check_page(report_page(report, {}))

    assert "First failure: <b>boom</b>, on orders" in page.text


# Policy, pictures, imports.


def test_the_policy_allows_our_own_style_and_script_only() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', SHOP)

    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert (
        len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy[1])) == 3
    )  # Ours, that inside the diagrams, and the script.


def test_the_page_is_made_without_spark_or_duckdb() -> None:
    code = (
        "import sys; from beforehand.pipeline.report import report_page; report_page({}, {});"
        "assert not {'pyspark', 'duckdb', 'numpy', 'numba'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
