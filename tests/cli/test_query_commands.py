"""The commands that ask a history directory: what they print, their JSON documents, their exit codes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.command import main
from beforehand.cli.export_perfetto import perfetto_trace
from beforehand.cli.printing import shown_id
from beforehand.cli.shop import shop_run
from beforehand.events import Event
from beforehand.formats.vector_logs import read_shiviz
from beforehand.history import History
from beforehand.history.judging import judged_notes
from beforehand.service import Ingest, Store
from history_directories import SMALL_REPORT, make_pack_directory, random_events

HOSTILE = "\x1b]0;owned\x07\x1b[2J\rname\n\u202ereversed"


@dataclass
class Done:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command as a user runs it, in this process."""

    def one(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["beforehand", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return one


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day at the shop, analyzed."""
    folder = tmp_path_factory.mktemp("shop")
    case = make_pack_directory([shop_run(seed=1)], folder, packs=4)
    report = case.histories[""].check()
    write_violations(case.path, report.violations)
    measures = case.histories[""].measure()
    document = SMALL_REPORT | {
        "violations": report.known,
        "judged": {kind: one.document() for kind, one in report.judged.items()},
        "clocks": {
            process: {"offset_min_ns": one.offset_min_ns, "offset_max_ns": one.offset_max_ns}
            for process, one in measures.clocks.items()
        },
        "references": list(measures.references),
        "concurrency": measures.concurrency,
        "hidden_channels": [{"resource": "item-1", "earlier": "a:1", "later": "b:1", "apart_ns": 5_000_000}],
        "notes": ["delays are on raw clocks"],
    }
    (case.path / "report.json").write_text(json.dumps(document))
    return case.path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several executions, one of them with names from an attacker."""
    hostile = [
        Event(
            execution="evil", process=HOSTILE, index=1, name=HOSTILE, sends=(HOSTILE,), attributes={HOSTILE: HOSTILE}
        ),
        Event(execution="evil", process="p q", index=1, name="=== x ===", receives=(HOSTILE,)),
    ]
    executions = [random_events(1, processes=3, steps=40, gap=3, execution="t/1"), hostile]
    return make_pack_directory(executions, tmp_path_factory.mktemp("traces"), packs=2).path


def write_violations(path: Path, violations: Any) -> None:
    import pyarrow as pa

    from beforehand.pipeline.schemas import VIOLATION
    from beforehand.pipeline.tables import write_parquet

    rows = [
        {
            "execution": "",
            "kind": one.kind,
            "events": [str(event) for event in one.events],
            "messages": list(one.messages),
            "why": one.why,
            "reasons": list(one.reasons),
        }
        for one in violations
    ]
    write_parquet(pa.Table.from_pylist(rows, schema=VIOLATION), path / "violations" / "small.parquet")


def history() -> History:
    return History(shop_run(seed=1))


# find


def test_find_shows_events_newest_first(run: Run, shop: Path) -> None:
    done = run("find", shop, "--where", "attributes.level = error")
    assert done.status == 0
    assert done.out.startswith("orders:17  2026-09-21T14:13:")
    assert "checkout failed" in done.out
    assert "level=error" in done.out


def test_find_as_json_says_whether_there_are_more(run: Run, shop: Path) -> None:
    document = run("find", shop, "--limit", "2", "--json").document
    assert [event["id"] for event in document["events"]] == [str(e.id) for e in history().order()[:-3:-1]]
    assert document["more"] is True
    assert set(document["events"][0]) == {
        "id",
        "process",
        "index",
        "kind",
        "name",
        "sends",
        "receives",
        "time",
        "attributes",
    }
    event = history().event(document["events"][0]["id"])
    assert (document["events"][0]["sends"], document["events"][0]["receives"]) == (
        list(event.sends),
        list(event.receives),
    )
    assert run("find", shop, "--where", "name = nothing", "--json").document == {"events": [], "more": False}


def test_tables_are_at_most_a_hundred_columns_wide(run: Run, shop: Path) -> None:
    for arguments in (["find", shop], ["explain", shop, "orders:17"], ["measure", shop]):
        done = run(*arguments)
        assert done.status == 0
        assert max(map(len, done.out.splitlines())) <= 100


def test_an_execution_that_all_rows_share_is_named_once(run: Run, traces: Path) -> None:
    done = run("find", traces, "--execution", "t/1", "--limit", "3")
    first, empty, *rows = done.out.splitlines()
    assert (first, empty) == ("of execution t/1; before each id stands t/1/", "")
    assert [row.split(":")[0] in ("p0", "p1", "p2") for row in rows] == [True] * 3
    assert "t/1/" in run("find", traces, "--execution", "t/1", "--limit", "1").out.splitlines()[0]


def test_different_ids_never_look_alike() -> None:
    ids = [f"{'a' * 30}{number}" for number in (1, 2)]
    assert [shown_id(one, 11) for one in ids] == ["aaaaa…aaaa1", "aaaaa…aaaa2"]
    assert shown_id("a" * 11, 11) == "a" * 11


def test_cut_lists_the_processes_inside_and_counts_the_others(run: Run, tmp_path: Path) -> None:
    events = [Event(process=process, index=1) for process in "abc"]
    path = make_pack_directory([events], tmp_path, packs=1).path
    rows = run("cut", path, "--after", "b:1").out.splitlines()
    assert rows[:3] == ["process  last event inside", "b        1", "2 processes have no event inside"]


# explain


def test_explain_shows_the_past_with_the_event_last(run: Run, shop: Path) -> None:
    done = run("explain", shop, "orders:17", "--last", "3")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [
        str(e.id) for e in history().explain("orders:17", last=3).events
    ]
    assert lines[3].startswith("=>  orders:17")
    assert lines[-1] == "3 events, the last of 105 that happened before orders:17"


@pytest.mark.parametrize("flag", [["--json"], ["--as", "json"]])
def test_explain_as_json_is_the_documented_document(flag: list[str], run: Run, shop: Path) -> None:
    document = run("explain", shop, "orders:17", *flag).document
    found = history().explain("orders:17")
    assert document["event"] == "orders:17"
    assert document["past"] == found.past
    assert [event["id"] for event in document["events"]] == [str(event.id) for event in found.events]


def test_explain_can_be_narrowed(run: Run, shop: Path) -> None:
    arguments = ["--where", "kind = send", "--process", "stock", "--last", "4", "--json"]
    events = run("explain", shop, "orders:17", *arguments).document["events"]
    assert len(events) == 4
    assert {(event["process"], event["kind"]) for event in events} == {("stock", "send")}


def test_explain_as_shiviz_reads_back_with_the_same_order(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(run("explain", shop, "orders:17", "--last", "30", "--as", "shiviz").out)
    check_shiviz(
        tmp_path / "log", {"": [*history().explain("orders:17", last=30).events, history().event("orders:17")]}
    )


# relate


def test_relate_says_how(run: Run, shop: Path) -> None:
    done = run("relate", shop, "stock:17", "orders:17")
    assert done.out.splitlines()[0] == "stock:17 happened before orders:17"
    assert len(done.out.splitlines()) == len(history().chain("stock:17", "orders:17"))
    assert run("relate", shop, "orders:17", "stock:17").out.startswith("orders:17 happened after stock:17")
    assert run("relate", shop, "orders:17", "orders:17").out == "orders:17 and orders:17 are the same event\n"


def test_relate_as_json_is_the_documented_document(run: Run, shop: Path) -> None:
    document = run("relate", shop, "orders:17", "stock:17", "--json").document
    assert document["relation"] == "after"
    assert document["chain"] == [str(event) for event in history().chain("stock:17", "orders:17")]


# order


def test_order_writes_the_deterministic_run_with_ids(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("order", shop)
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["id"] for record in records] == [str(event.id) for event in history().order()]
    assert records[0]["name"] == history().order()[0].name
    written = run("order", shop, "--to", tmp_path / "run.jsonl", "--json")
    assert written.document == {"events": len(records), "to": str(tmp_path / "run.jsonl")}
    assert (tmp_path / "run.jsonl").read_text() == done.out


# check


def test_check_exits_with_1_and_a_witness_if_it_found_something(run: Run, shop: Path) -> None:
    done = run("check", shop)
    assert done.status == 1
    assert "✗ causal order: overtaken receives: 1\n" in done.out
    assert "? reported clocks: not judged: no event reports a clock\n" in done.out
    assert "causal: orders:18 received 'reservation-6' after 'checkout-6'" in done.out
    document = run("check", shop, "--json")
    assert document.status == 1
    assert document.document["counts"] == {"fifo": 0, "causal": 1, "total": 0, "clock": None}
    assert document.document["judged"]["clock"]["why"] == "no event reports a clock"
    (violation,) = document.document["violations"]
    assert violation["kind"] == "causal"
    assert violation["messages"] == ["reservation-6", "checkout-6"]
    assert violation["events"][-1] == "orders:18"
    assert violation["why"].startswith("orders:18 received")


def test_check_exits_with_0_if_all_is_well_and_says_what_was_not_checked(run: Run, tmp_path: Path) -> None:
    path = make_pack_directory([[Event(process="p", index=1)]], tmp_path, packs=1).path
    report = SMALL_REPORT | {
        "violations": {"fifo": 0, "causal": 0, "total": None, "clock": 0},
        "notes": ["total: no"],
    }
    (path / "report.json").write_text(json.dumps(report))
    done = run("check", path)
    assert done.status == 0
    assert "? total order: not judged\n" in done.out
    assert "note: total: no" in done.out


def test_check_judges_and_exits_by_the_orders_that_were_promised(run: Run, shop: Path) -> None:
    done = run("check", shop, "--order", "fifo", "--order", "total")
    assert done.status == 0
    assert [line.partition(":")[0] for line in done.out.splitlines()[:3]] == ["✓ FIFO order", "✓ total order", "note"]
    assert "causal" not in done.out
    done = run("check", shop, "--order", "causal", "--json")
    assert done.status == 1
    assert done.document["counts"] == {"causal": 1}
    assert [one["kind"] for one in done.document["violations"]] == ["causal"]


def test_check_of_an_order_that_could_not_be_judged_is_no_success(run: Run, shop: Path) -> None:
    done = run("check", shop, "--order", "clock")
    assert done.out.startswith("? reported clocks: not judged")
    assert (done.status, done.err) == (2, "beforehand: asked for, but not judged: reported clocks\n")
    assert run("check", shop, "--order", "clock", "--order", "fifo", "--json").status == 2
    assert run("check", shop, "--order", "clock", "--order", "causal").status == 1, "a violation says more"


def judged_directory(tmp_path: Path, events: list[Event]) -> Path:
    """With the report that an analysis of them would write, as far as `check` reads it."""
    case = make_pack_directory([events], tmp_path, packs=1)
    found = case.histories[""].check()
    judged = {kind: one.document() for kind, one in found.judged.items()}
    report = SMALL_REPORT | {"violations": found.known, "judged": judged, "notes": judged_notes(found.judged)}
    (case.path / "report.json").write_text(json.dumps(report))
    return case.path


def test_orders_that_could_not_be_judged_have_no_tick_and_no_count(run: Run, tmp_path: Path) -> None:
    inferred = [Event(process="a", index=1, sends=("~m",)), Event(process="b", index=1, receives=("~m",))]
    path = judged_directory(tmp_path, inferred)
    assert run("check", path).status == 0, "nobody asked for a certain order"
    done = run("check", path, "--delta", "5")
    assert (done.status, done.err) == (2, "beforehand: asked for, but not judged: temporal order\n")
    assert "✓" not in done.out
    for order in ("FIFO", "causal", "total", "temporal"):
        assert f"? {order} order: not judged: all 1 receives are of inferred messages\n" in done.out
    document = run("check", path, "--json").document
    assert document["counts"] == {"fifo": None, "causal": None, "total": None, "clock": None}
    assert document["notes"] == [
        "FIFO, causal and total order: not judged: all 1 receives are of inferred messages",
        "reported clocks: not judged: no event reports a clock",
    ]


def test_orders_that_were_judged_in_part_say_by_how_much(run: Run, tmp_path: Path) -> None:
    events = [
        Event(process="a", index=1, sends=("~m", "n"), clock={"a": 1}),
        Event(process="b", index=1, receives=("~m",)),
        Event(process="b", index=2, receives=("n",)),
        Event(process="b", index=3, receives=("gone",)),
    ]
    done = run("check", judged_directory(tmp_path, events))
    inferred, unsent = "1 receives are of inferred messages", "1 of messages that nobody sent"
    judged = "judged by 1 of 3 receives"
    assert f"✓ causal order: overtaken receives: 0, {judged}: {inferred} and {unsent}\n" in done.out
    assert f"fits: 0, judged by 2 of 3 receives: {inferred}\n" in done.out
    assert "✓ reported clocks: wrong ones: 0, judged by 1 of 4 events: 3 events report no clock\n" in done.out


def test_check_judges_temporal_order_for_a_delta(run: Run, shop: Path) -> None:
    document = run("check", shop, "--delta", "20", "--json").document
    expected = history().check(delta_ns=20_000_000)
    assert document["counts"]["temporal"] == expected.counts["temporal"] > 0
    whys = [one["why"] for one in document["violations"] if one["kind"] == "temporal"]
    assert whys == [one.why for one in expected.violations if one.kind == "temporal"]


# cut


def test_cut_after_an_event_is_the_documented_document(run: Run, shop: Path) -> None:
    for arguments in (["--after", "orders:17", "mail:3"], ["--after", "orders:17", "--after", "mail:3"]):
        document = run("cut", shop, *arguments, "--json").document
        expected = history().cut_after("orders:17", "mail:3")
        assert document["cut"] == dict(expected.cut)
        assert document["front"] == [str(event) for event in expected.front]
        assert sorted(document["in_flight"]) == sorted(expected.in_flight)
        assert document["consistent"] is True


def test_cut_at_a_time_takes_rfc_3339_and_nanoseconds(run: Run, shop: Path) -> None:
    expected = history().cut_at(1_790_000_000_400_000_000)
    for time in ("2026-09-21T14:13:20.4Z", "1790000000400000000"):
        assert run("cut", shop, "--at", time, "--json").document["cut"] == dict(expected.cut)
    shown = run("cut", shop, "--at", time).out
    assert "the cut is consistent" in shown
    assert f"{len(expected.in_flight)} messages are in flight" in shown


# measure


def test_measure_shows_what_the_report_has(run: Run, shop: Path) -> None:
    done = run("measure", shop)
    assert done.status == 0
    assert "hidden channels" in done.out
    assert "delays are on raw clocks" in done.out
    document = run("measure", shop, "--json").document
    assert set(document) >= {"clocks", "synchrony", "hidden_channels", "notes"}
    assert set(document["clocks"]) == {"web", "cart", "stock", "payment", "orders", "mail"}


# draw and export


def test_draw_makes_a_picture_and_a_page(run: Run, shop: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "a.html"):
        done = run("draw", shop, "--around", "orders:17", "--to", tmp_path / name, "--json")
        assert done.status == 0, done.err
        assert done.document["events"] > 40
        text = (tmp_path / name).read_text()
        assert "<svg" in text
        assert "checkout failed" in text
    assert run("draw", shop, "--to", tmp_path / "all.svg").status == 0
    assert (tmp_path / "all.svg").read_text().count("checkout failed") >= 1


@pytest.mark.parametrize("around", [["--around", "orders:17"], []])
@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_picture_marks_what_was_overtaken_and_what_failed(
    run: Run, shop: Path, tmp_path: Path, around: list[str], suffix: str
) -> None:
    assert run("draw", shop, *around, "--to", tmp_path / f"a.{suffix}").status == 0

    text = (tmp_path / f"a.{suffix}").read_text()

    (late,) = re.findall(r"<title>message ([^\n]*)[^<]*</title><path class=\"arrow violation\"", text)
    assert late == "reservation-6"
    wrong = re.findall(r'<g class="event \w+ violation"[^>]*><title>(\S*)', text)
    assert wrong == ["orders:16", "orders:18"]
    assert re.findall(r'<g class="event \w+ failure"[^>]*><title>(\S*)', text) == ["orders:17"]


def test_export_as_native_reads_back(run: Run, shop: Path, tmp_path: Path) -> None:
    from beforehand.formats import read_events

    done = run("export", shop, "--as", "native", "--to", tmp_path / "e.jsonl.gz", "--json")
    assert done.document == {"as": "native", "events": len(history()), "to": str(tmp_path / "e.jsonl.gz")}
    assert list(read_events(tmp_path / "e.jsonl.gz")) == history().order()


def check_shiviz(path: Path, executions: dict[str, list[Event]]) -> None:
    """Our reader gives the same events in the same partial order, and ShiViz would take the log."""
    read = History.by_execution(event for event in read_shiviz(path) if isinstance(event, Event))
    assert len(read) == len(executions)
    for events, again in zip(executions.values(), read.values(), strict=True):
        whole = History(shop_run(seed=1) if not events[0].execution else events)
        assert again.rejections == ()
        assert len(again) == len(events)
        numbered: dict[Event, str] = {}
        for process in {event.process for event in events}:
            own = sorted((event for event in events if event.process == process), key=lambda event: event.index)
            # ShiViz wants every process to count 1, 2, 3.
            numbered |= {event: f"{process}:{number}" for number, event in enumerate(own, 1)}
        for a in events[::3]:
            assert again.event(numbered[a]).name == (a.name or a.kind.value)
            for b in events[::5]:
                assert again.compare(numbered[a], numbered[b]) == whole.compare(a, b)


def test_export_as_shiviz_reads_back_with_the_same_order(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("export", shop, "--as", "shiviz", "--to", tmp_path / "log").status == 0
    check_shiviz(tmp_path / "log", {"": history().order()})


def test_several_executions_and_gaps_survive_shiviz(run: Run, traces: Path, tmp_path: Path) -> None:
    assert run("export", traces, "--as", "shiviz", "--to", tmp_path / "log", "--execution", "t/1").status == 0
    events = random_events(1, processes=3, steps=40, gap=3, execution="t/1")
    check_shiviz(tmp_path / "log", {"t/1": events})
    assert run("export", traces, "--as", "shiviz", "--to", tmp_path / "all").status == 0
    read = [event for event in read_shiviz(tmp_path / "all") if isinstance(event, Event)]
    assert len(read) == len(events) + 2
    evil = History.by_execution(read)["evil"]
    assert evil.compare(*(event.id for event in evil.order())) == "before"


def test_export_as_perfetto_has_an_arrow_per_receive_that_goes_forward(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("export", shop, "--as", "perfetto", "--to", tmp_path / "trace.json").status == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [one["args"]["id"] for one in slices] == [str(event.id) for event in history().order()]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    columns = history().columns
    assert len(starts) == len(ends) == int((columns.source >= 0).sum())
    places = {(one["tid"], one["ts"]) for one in slices}
    for number, start in starts.items():
        assert start["ts"] < ends[number]["ts"]
        assert {(start["tid"], start["ts"]), (ends[number]["tid"], ends[number]["ts"])} <= places
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == set(history().processes)


def test_a_trace_for_perfetto_tells_nanoseconds_apart_and_loses_no_attribute() -> None:
    events = [
        Event(process="a", index=1),
        Event(process="a", index=2, time=1_790_000_000_000_000_000, attributes={"id": "mine", "time": "noon"}),
        Event(process="a", index=3, time=1_790_000_000_000_000_001),
    ]
    slices = [one for one in json.loads(b"".join(perfetto_trace(events)))["traceEvents"] if one["ph"] == "X"]
    assert [one["ts"] for one in slices] == [0, 0.001, 0.002]
    assert slices[1]["args"] == {
        "id": "a:2",
        "time": 1_790_000_000_000_000_000,
        "attribute.id": "mine",
        "attribute.time": "noon",
    }


def test_export_as_dot_has_the_edges_of_processes_and_messages(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("export", shop, "--as", "dot", "--to", tmp_path / "graph.dot").status == 0
    text = (tmp_path / "graph.dot").read_text()
    columns = history().columns
    assert text.count(" -> ") == len(history()) - len(history().processes) + int((columns.source >= 0).sum())
    assert text.count("{") == text.count("}") == 1


def test_an_excerpt_has_the_events_around_one(run: Run, shop: Path, tmp_path: Path) -> None:
    arguments = ["--around", "orders:17", "--count", "10", "--to", tmp_path / "e.jsonl", "--json"]
    assert 11 <= run("export", shop, "--as", "native", *arguments).document["events"] <= 25


# Text from strangers.


@pytest.mark.parametrize(
    "arguments",
    [
        ["find"],
        ["find", "--where", "execution = evil"],
        ["explain", "evil/p q:1"],
        ["relate", f"evil/{HOSTILE}:1", "evil/p q:1"],
        ["cut", "--after", "evil/p q:1"],
        ["explain", "evil/p q:1", "--as", "shiviz"],
        ["explain", "evil/\x1b[2J:1"],
    ],
)
def test_no_control_character_of_an_event_reaches_the_terminal(arguments: list[str], run: Run, traces: Path) -> None:
    done = run(arguments[0], traces, *arguments[1:])
    shown = done.out + done.err
    assert shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", shown)


# Errors.


def test_a_store_in_place_of_a_history_directory_gets_advice_that_works(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with Store(path) as store:
        Ingest(store).report([Event(process="cart", index=1)])
    done = run("explain", path, "cart:1")
    assert done.status == 2
    (advice,) = re.findall(r"beforehand (export \S+ --as native) --to events.jsonl", done.err)
    assert run(*advice.split(), "--to", tmp_path / "events.jsonl").status == 0
    assert '"process":"cart"' in (tmp_path / "events.jsonl").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["explain", "{}", "nowhere:1"], 2, "no event 'nowhere:1' in this history"),
        (["explain", "{}", "orders:99"], 2, "no event 'orders:99' in this history: 'orders' has indexes up to 18"),
        (["explain", "{}", "orders"], 2, "an event is named process:index"),
        (["explain", "{}", "orders:17", "--where", "name ="], 2, "expected a value"),
        (["explain", "{}", "orders:17", "--process", "nobody"], 2, "there is no process 'nobody'"),
        (["find", "{}", "--where", "nme = x"], 2, "no field 'nme': did you mean name?"),
        (["find", "{}", "--where", "level = error"], 2, "no field 'level': did you mean attributes.level?"),
        (["analyse", "x"], 2, "beforehand: No such command 'analyse': did you mean analyze? (see"),
        (["frobnicate"], 2, "beforehand: No such command 'frobnicate'. (see"),
        (["find", "{}", "--execution", "x"], 2, "there is no execution 'x'"),
        (["find", "nowhere"], 2, "there is no nowhere: make it with beforehand analyze"),
        (["relate", "{}", "orders:1"], 2, "Missing argument"),
        (["cut", "{}"], 2, "give either --at TIME or --after EVENT"),
        (["cut", "{}", "--at", "1", "--after", "orders:1"], 2, "give either --at TIME or --after EVENT"),
        (["cut", "{}", "orders:1", "--at", "1"], 2, "events follow --after"),
        (["cut", "{}", "--at", "noon"], 2, "is not RFC 3339"),
        (["draw", "{}", "--to", "picture.png"], 2, "must end in .html or .svg"),
        (["draw", "{}", "--around", "orders:17"], 2, "Missing option '--to'"),
        (["export", "{}", "--as", "excel", "--to", "x"], 2, "excel"),
        (["check", "{}", "--delta", "-1"], 2, "--delta"),
        (["check", "{}", "--delta", "nan"], 2, "'nan' is not a finite number"),
        (["check", "{}", "--delta", "inf"], 2, "'inf' is not a finite number"),
        (["order", "{}", "--to", "no/such/folder/x"], 2, "cannot write"),
    ],
)
def test_wrong_usage_and_unusable_input_are_one_clear_line(
    arguments: list[str], status: int, said: str, run: Run, shop: Path
) -> None:
    done = run(*[argument.replace("{}", str(shop)) for argument in arguments])
    assert done.status == status
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert said in done.err
    assert "bug" not in done.err


def test_executions_to_choose_from_come_with_their_failures_and_most_of_them_first(run: Run, tmp_path: Path) -> None:
    failing = {"Status": "x", "error": "True"}
    executions = [
        [Event(execution="calm", process="p", index=at) for at in (1, 2)],
        [
            Event(execution="bad", process="p", index=1, attributes=failing | {"phase": "start"}),
            Event(execution="bad", process="p", index=2, attributes=failing | {"phase": "end"}),
        ],
        [Event(execution="one", process="p", index=1)],
        [Event(execution="two", process="p", index=1)],
    ]
    path = make_pack_directory(executions, tmp_path, packs=1).path
    named = "'bad' (2 events, 1 failures), 'calm' (2 events), 'one' (1 events), …"
    assert f"say which one with --execution; there are {named}\n" in run("draw", path, "--to", "x.svg").err


def test_an_execution_must_be_named_where_there_are_several(run: Run, traces: Path) -> None:
    said = "there are 2 executions: say which one with --execution; there are 't/1' (40 events), 'evil' (2"
    assert said in run("cut", traces, "--at", "1").err
    assert run("cut", traces, "--at", "1", "--execution", "t/1").status == 0


@pytest.mark.parametrize(
    "command", ["find", "explain", "relate", "order", "check", "cut", "measure", "draw", "export"]
)
def test_the_help_of_every_command_has_an_example(command: str, run: Run) -> None:
    done = run(command, "--help")
    assert done.status == 0
    assert f"beforehand {command} shop" in done.out


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
QUERIES = ["find", "explain", "relate", "order", "check", "cut", "measure", "draw", "export"]
SHOWN = [
    (line, output)
    for line, output in re.findall(r"^\$ beforehand (.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
    if line.split()[0] in QUERIES
]


@pytest.mark.parametrize(("line", "output"), SHOWN, ids=[line for line, _ in SHOWN])
def test_what_the_reference_shows_is_what_a_command_says(
    line: str, output: str, run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").symlink_to(shop)
    monkeypatch.chdir(tmp_path)
    done = run(*shlex.split(line))
    if output:
        notes = "note: delays are on raw clocks\n"  # The report of these tests has one.
        assert (done.out + done.err).replace(notes, "") == output
    assert done.status == (1 if line.startswith("check") else 0)


@pytest.mark.parametrize(
    "command", ["find", "explain", "relate", "order", "check", "cut", "measure", "draw", "export"]
)
def test_the_reference_has_every_option_of_a_command(command: str, run: Run) -> None:
    section = PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]
    options = set(re.findall(r"--[a-z]+", run(command, "--help").out.split("Options:")[1])) - {"--help"}
    assert {option for option in options if option not in section} == set()


def test_an_empty_history_has_no_events(run: Run, tmp_path: Path) -> None:
    path = make_pack_directory([], tmp_path, packs=1).path
    assert run("find", path, "--json").document == {"events": [], "more": False}
    assert run("order", path).out == ""
    assert run("check", path).status == 0
    assert "no event 'p:1'" in run("explain", path, "p:1").err


def test_the_list_of_commands_loads_none_of_them() -> None:
    code = """
import sys
sys.argv = ["beforehand", "--help"]
from beforehand.cli import main
try:
    main()
except SystemExit:
    pass
assert not {"numpy", "numba", "pyarrow", "duckdb", "beforehand.cli.find", "beforehand.cli.demo"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout


def test_a_reader_that_goes_away_is_no_error(shop: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m beforehand order {shop} 2>errors | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 0
    assert (tmp_path / "errors").read_text() == ""
