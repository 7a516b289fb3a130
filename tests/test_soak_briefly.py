"""All parts together under faults, for half a minute; `make soak` goes on. And that its judges can judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from soak import judging
from soak.parts import SAMPLES_MIN, Life, grown
from soak.running import soak

from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.runtime.group_store import DELIVER, SEND, GroupStore


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_members_mergers_and_the_service_under_faults_lose_nothing(tmp_path: Path) -> None:
    findings, happened = soak(tmp_path, 25, seed=1)
    assert findings == [], happened
    assert " 0 kills" not in happened


def journal(folder: Path, name: str, *noted: tuple[str, str]) -> None:
    store = GroupStore(folder / f"{name}.db", group="g", process=name, order="single-phase")
    rows = [(at, kind, what) for at, (kind, what) in enumerate(noted, start=1)]
    store.commit(None, [], worked_off=None, journal=rows)
    store.close()


@pytest.mark.parametrize(
    ("of_b", "said"),
    [
        ([(DELIVER, "a.1"), (DELIVER, "a.2")], []),
        ([(DELIVER, "a.1")], ["b never delivered a.2", "different orders"]),
        ([(DELIVER, "a.2"), (DELIVER, "a.1")], ["different orders", "fifo", "causal", "total"]),
        ([(DELIVER, "a.1"), (DELIVER, "a.2"), (DELIVER, "a.2")], ["b delivered a.2 2 times", "different orders"]),
    ],
)
def test_what_members_delivered_is_judged(of_b: list[tuple[str, str]], said: list[str], tmp_path: Path) -> None:
    sends = [(SEND, "a.1"), (SEND, "a.2")]
    journal(tmp_path, "a", *sends, (DELIVER, "a.1"), (DELIVER, "a.2"))
    journal(tmp_path, "b", *of_b)
    findings, sent = judging.journals(tmp_path, ["a", "b"])
    assert sent == 2
    for words in said:
        assert any(words in finding for finding in findings), (words, findings)
    assert bool(findings) == bool(said)


def test_copies_that_differ_or_are_not_there_are_findings(tmp_path: Path) -> None:
    (tmp_path / "a.copy").write_text("{}")
    assert judging.copies(tmp_path, ["a", "b"]) == ["map: b wrote no copy"]
    (tmp_path / "b.copy").write_text('{"k": "v"}')
    assert judging.copies(tmp_path, ["a", "b"]) == ["map: the copies of a and b differ"]
    (tmp_path / "b.copy").write_text("{}")
    assert judging.copies(tmp_path, ["a", "b"]) == []


def test_what_was_acknowledged_and_is_not_there_is_a_finding(tmp_path: Path) -> None:
    exported = tmp_path / "exported.jsonl"
    write_events([Event(process="a.1", index=1)], exported)
    noted = tmp_path / "a.1.acknowledged"
    noted.write_bytes(b'{"process":"a.1","index":1}\n{"process":"a.1","ind')
    assert judging.reports(tmp_path, exported) == ([], 1)
    noted.write_bytes(b'{"process":"a.1","index":1}\n{"process":"a.1","index":2}\n')
    findings, _ = judging.reports(tmp_path, exported)
    assert findings == ["service: 1 events were acknowledged and are not there, ('a.1', 2) among them"]
    exported.write_bytes(2 * exported.read_bytes())
    assert any("twice" in finding for finding in judging.reports(tmp_path, exported)[0])


def test_mergers_that_differ_in_a_channel_or_lack_something_are_findings(tmp_path: Path) -> None:
    def written(name: str, *channels: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"channel": one[0], "position": one[1]}) + "\n" for one in channels))
        return path

    one = written("one", "x1", "y1", "x2")
    assert judging.merged([one, written("two", "x1", "x2", "y1")], {"p": 3}) == ([], 3)
    findings, _ = judging.merged([one, written("two", "x2", "y1", "x1")], {"p": 3})
    assert findings == ["merge: one and two differ in x"]
    findings, _ = judging.merged([one], {"p": 4})
    assert findings == ["merge: one has 3 of 4 messages, 0 set aside"]


def test_a_process_that_grows_is_a_finding_and_one_that_has_just_started_is_not() -> None:
    flat, steep = [10**8] * SAMPLES_MIN, [10**8 + 10**7 * at for at in range(SAMPLES_MIN)]
    few, more = [20] * SAMPLES_MIN, list(range(SAMPLES_MIN))
    assert grown(Life("a.1", 100, flat, few)) == []
    assert grown(Life("a.1", 100, steep, few)) == ["memory: a.1 grew from 234 to 424 MiB"]
    assert grown(Life("a.1", 100, flat, more)) == ["descriptors: a.1 grew from 14 to 34"]
    assert grown(Life("a.1", 10, steep, more)) == []
