"""The queue: its bounds, each policy at them, retries, and that nobody waits for a target."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from gated_target import GatedTarget, wait_until_retrying

from beforehand.reporting import Later, NotStored, Refused, Reporter, ReportLimits, Retries, Split, Taken
from beforehand.reporting.status import Drops

MINUTE = 60.0
QUICK = Retries(first=0.001, most=0.002)


def held_by_gate(target: GatedTarget, **options: object) -> Reporter:
    """A reporter whose first event is being sent, for as long as the gate is shut."""
    reporter = Reporter(target, process="p", linger=0.0, **options)  # type: ignore[arg-type]
    reporter.event("first")
    assert target.entered.wait(MINUTE)
    return reporter


def test_a_target_that_hangs_holds_nobody_and_memory_is_bounded() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=100))
    indexes = [reporter.event("more").index for _ in range(10_000)]  # Returns, though nothing was ever taken.
    assert indexes == list(range(2, 10_002))
    assert reporter.status().queued == 100
    assert reporter.dropped == {"queue-full": 9_901}
    target.gate.set()
    assert reporter.close(MINUTE)


def test_newest_keeps_what_is_queued_and_the_gap_is_told() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=3))
    for _ in range(5):
        reporter.event("more")
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [1, 2, 3, 7]
    assert target.events()[-1]["name"] == "reporter dropped 3 events"
    assert target.events()[-1]["attributes"] == {
        "level": "warn",
        "reporter.dropped": "3",
        "reporter.dropped.indexes": "4-6",
        "reporter.dropped.reasons": "queue-full=3",
    }
    assert reporter.dropped == {"queue-full": 3}


def test_oldest_keeps_what_comes_but_never_takes_back_what_is_being_sent() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=3), drop="oldest")
    for _ in range(5):
        reporter.event("more")
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [1, 5, 6, 7]
    assert target.events()[-1]["attributes"]["reporter.dropped.indexes"] == "2-4"  # type: ignore[index]


def test_oldest_drops_even_the_only_one_that_waits() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=2), drop="oldest")
    reporter.event("second")
    reporter.event("third")
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [1, 3, 4]


def test_oldest_drops_what_comes_if_all_else_is_being_sent() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=1), drop="oldest")
    reporter.event("no room")
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [1, 3]
    assert reporter.dropped == {"queue-full": 1}


def test_a_note_that_is_dropped_is_told_by_the_next_one() -> None:
    drops = Drops()
    drops.add("queue-full", 4)
    drops.add("queue-full", 5)
    note = drops.take_untold()
    assert not drops.untold
    drops.add("queue-full", 9)
    drops.restore(note)
    again = drops.take_untold()
    assert again.attributes()["reporter.dropped.indexes"] == "4-5,9"
    assert (again.total(), drops.counts) == (3, {"queue-full": 3})


def test_a_note_names_a_bounded_number_of_gaps_and_counts_the_rest() -> None:
    drops = Drops()
    for index in range(1, 601, 2):
        drops.add("queue-full", index)
    attributes = drops.take_untold().attributes()
    assert attributes["reporter.dropped"] == "300"
    assert attributes["reporter.dropped.indexes"].endswith("399,and 100 more")


def test_reasons_that_a_target_invents_are_bounded() -> None:
    drops = Drops()
    for number in range(1000):
        drops.count(f"reason-{number}")
    assert len(drops.counts) == 101
    assert drops.counts["other"] == 900


def test_the_bound_in_bytes_is_passed_by_one_event_at_most() -> None:
    target = GatedTarget()
    limits = ReportLimits(bytes_max=10_000)
    reporter = held_by_gate(target, limits=limits)
    for _ in range(100):
        reporter.event("x" * 900)
    status = reporter.status()
    assert 10_000 <= status.queued_bytes < 11_000
    assert status.dropped == {"queue-full": 101 - status.queued}
    target.gate.set()
    assert reporter.close(MINUTE)
    assert reporter.status().queued_bytes == 0


def test_wait_waits_for_room() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=1), drop="wait", wait=MINUTE)
    waiting = threading.Thread(target=reporter.event, args=("second",))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    target.gate.set()
    waiting.join(MINUTE)
    assert not waiting.is_alive()
    assert reporter.close(MINUTE)
    assert (target.indexes(), reporter.dropped) == ([1, 2], {})


def test_wait_ends_at_its_deadline_and_counts_the_drop() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=1), drop="wait", wait=0.02)
    assert reporter.event("second").index == 2
    assert reporter.dropped == {"wait-over": 1}
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [1, 3]


def test_those_who_wait_are_let_go_by_close() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=1), drop="wait", wait=MINUTE)
    waiting = threading.Thread(target=reporter.event, args=("second",))
    waiting.start()
    reporter.close(0.05)
    waiting.join(MINUTE / 2)
    assert not waiting.is_alive()
    target.gate.set()


def test_a_failing_target_gets_the_batch_again_after_growing_waits() -> None:
    tries: list[float] = []
    taken: list[bytes] = []

    def target(lines: Sequence[bytes]) -> None:
        tries.append(time.monotonic())
        if len(tries) < 5:
            raise OSError("not now")
        taken.extend(lines)

    reporter = Reporter(target, process="p", linger=0.0, retries=Retries(first=0.02, most=0.08))
    reporter.event("one")
    assert reporter.flush(MINUTE)
    waits = [later - earlier for earlier, later in pairwise(tries)]
    # Twice the one before, up to the most; chance takes up to half.
    assert all(wait >= least for wait, least in zip(waits, [0.01, 0.02, 0.04, 0.04], strict=True))
    assert len(taken) == 1
    status = reporter.status()
    assert (status.sent, status.last_error, status.retrying_since) == (1, "OSError: not now", None)
    assert reporter.close()


def test_while_it_retries_the_status_says_so() -> None:
    def target(lines: Sequence[bytes]) -> None:
        raise OSError("gone")

    before = time.time()
    reporter = Reporter(target, process="p", linger=0.0, retries=Retries(first=30.0))
    reporter.event("one")
    wait_until_retrying(reporter)
    status = reporter.status()
    assert (status.queued, status.sent, status.last_error) == (1, 0, "OSError: gone")
    assert status.retrying_since is not None
    assert before <= status.retrying_since <= time.time()
    assert not reporter.close(0.01)


def test_close_tries_once_more_although_a_long_wait_has_begun() -> None:
    target = GatedTarget(is_open=True)
    target.answers.append(Later(error="down"))
    reporter = Reporter(target, process="p", linger=0.0, retries=Retries(first=3000.0, most=3000.0))
    reporter.event("one")
    wait_until_retrying(reporter)
    assert reporter.close(MINUTE)
    assert target.indexes() == [1]


def test_a_time_that_the_target_named_is_kept_even_at_close() -> None:
    target = GatedTarget(is_open=True)
    target.answers.append(Later(error="too many", after=3000.0))
    reporter = Reporter(target, process="p", linger=0.0, retries=QUICK)
    reporter.event("one")
    wait_until_retrying(reporter)
    assert not reporter.close(0.05)
    assert (target.batches, reporter.dropped) == ([1], {"unsent": 1})


def test_close_with_a_target_that_hangs_returns_at_its_deadline() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target)
    reporter.event("second")
    assert not reporter.close(0.05)  # Returns, though the gate is shut.
    status = reporter.status()
    assert (status.queued, status.dropped, status.closed) == (0, {"unsent": 2}, True)
    target.gate.set()


def test_what_is_reported_after_close_is_counted_and_raises_nothing() -> None:
    target = GatedTarget(is_open=True)
    reporter = Reporter(target, process="p")
    assert reporter.close()
    assert reporter.event("late").index == 1
    assert reporter.dropped == {"closed": 1}
    assert reporter.close()
    assert reporter.flush()
    assert target.lines == []


def test_what_a_partly_written_batch_lacks_is_sent_again_and_nothing_else() -> None:
    target = GatedTarget()
    target.answers.append(Later(error="disk full", taken=0))
    reporter = held_by_gate(target, retries=QUICK)
    for _ in range(4):
        reporter.event("more")
    target.answers.append(Later(error="disk full", taken=3))
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.indexes() == [4, 5]  # 1 to 3 were taken by the scripted answer.
    assert (reporter.status().sent, reporter.dropped) == (5, {})


def test_a_batch_that_is_too_large_is_split_until_it_fits() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target)
    for _ in range(16):
        reporter.event("more")
    target.answers.extend([Taken(stored=1), Split(error="413"), Split(error="413")])
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.batches == [1, 16, 8, 4, 5, 6, 1]
    assert target.indexes() == list(range(2, 18))


def test_a_single_event_that_the_target_finds_too_large_is_dropped_and_told() -> None:
    target = GatedTarget(is_open=True)
    target.answers.append(Split(error="413"))
    reporter = Reporter(target, process="p", linger=0.0)
    reporter.event("large")
    assert reporter.close(MINUTE)
    assert reporter.dropped == {"too-large": 1}
    assert target.indexes() == [2]


def test_a_target_that_takes_not_even_notes_ends_the_telling() -> None:
    target = GatedTarget(is_open=True)
    target.answers.extend([Split(error="413"), Split(error="413")])
    reporter = Reporter(target, process="p", linger=0.0)
    reporter.event("large")
    assert reporter.close(MINUTE)
    assert (reporter.dropped, target.batches) == ({"too-large": 2}, [1, 1])


def test_what_is_refused_for_good_is_dropped_with_its_reason() -> None:
    target = GatedTarget(is_open=True)
    rejected = (NotStored(0, "not-an-event", "no"), NotStored(1, "not-an-event", "no"))
    target.answers.extend([Refused(reason="http-400", error="bad"), Taken(stored=1, rejected=rejected)])
    reporter = Reporter(target, process="p")
    reporter.event("first")
    assert reporter.flush(MINUTE)
    for _ in range(3):
        reporter.event("more")
    assert reporter.close(MINUTE)
    assert reporter.dropped == {"http-400": 1, "rejected-not-an-event": 2}
    assert reporter.status().sent == 1


def test_batches_are_bounded_in_events_and_bytes() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(batch_events_max=4, batch_bytes_max=2_500))
    for size in (1, 1, 1, 1, 1, 900, 900, 900):
        reporter.event("x" * size)
    target.gate.set()
    assert reporter.close(MINUTE)
    assert target.batches == [1, 4, 3, 1]


def test_events_wait_for_company_but_not_when_flushed_or_enough() -> None:
    target = GatedTarget(is_open=True)
    reporter = Reporter(target, process="p", linger=3000.0, limits=ReportLimits(batch_events_max=5))
    for _ in range(3):
        reporter.event("more")
    assert not target.entered.wait(0.05)
    assert reporter.flush(MINUTE)
    for _ in range(5):
        reporter.event("more")
    assert target.second.wait(MINUTE)  # Without a flush.
    assert reporter.close(MINUTE)
    assert target.batches == [3, 5]


def test_flush_waits_for_what_was_before_it_and_no_more() -> None:
    target = GatedTarget()
    reporter = held_by_gate(target, limits=ReportLimits(events_max=3), drop="oldest")
    reporter.event("second")
    flushed: list[bool] = []
    flushing = threading.Thread(target=lambda: flushed.append(reporter.flush(MINUTE)))
    flushing.start()
    for _ in range(10):  # They push each other out; the first is still being sent.
        reporter.event("more")
    flushing.join(0.05)
    assert flushing.is_alive()
    target.gate.set()
    flushing.join(MINUTE)
    assert flushed == [True]
    assert reporter.close(MINUTE)


def test_flush_inside_the_target_does_not_wait_for_itself() -> None:
    found: list[bool] = []
    reporter = Reporter(lambda _: found.append(reporter.flush(MINUTE)), process="p", linger=0.0)
    reporter.event("one")
    assert reporter.close(MINUTE)
    assert found == [False]


def test_failures_are_said_in_the_log_once_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    target = GatedTarget(is_open=True)
    target.answers.extend([Later(error="down")] * 4 + [Refused(reason="http-400", error="bad")])
    reporter = Reporter(target, process="said", linger=0.0, retries=QUICK)
    with caplog.at_level(logging.INFO, "beforehand.reporting"):
        reporter.event("one")
        assert reporter.close(MINUTE)
    said = [(r.levelname, r.getMessage()) for r in caplog.records if "'said'" in r.getMessage()]
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert "down; 1 events wait" in said[0][1]
    assert said[1][1].endswith("go through again")


def test_what_somebody_must_mend_is_said_once_until_it_works(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.reporting.outbox.COMPLAINT_S", 0.0)
    target = GatedTarget(is_open=True)
    wrong = Later(error="401", after=0.0, say_once=True)
    down = Later(error="down")
    target.answers.extend([wrong, wrong, wrong, Taken(stored=1), wrong, wrong, down, down])
    reporter = Reporter(target, process="mended", linger=0.0, retries=QUICK)
    reporter.event("one")
    assert reporter.flush(MINUTE)
    reporter.event("two")
    assert reporter.close(MINUTE)
    said = [r.getMessage() for r in caplog.records if "'mended'" in r.getMessage() and r.levelname == "WARNING"]
    assert [text.split(": ")[-1].split(";")[0] for text in said] == ["401", "401", "down", "down"]


def test_conflicts_are_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    target = GatedTarget(is_open=True)
    target.answers.append(Taken(stored=0, conflicts=1))
    with Reporter(target, process="twice") as reporter:
        reporter.event("one")
    (said,) = [r.getMessage() for r in caplog.records if "'twice'" in r.getMessage()]
    assert said.endswith("1 events differ from known ones: is the process name used twice?")
    assert reporter.status().conflicts == 1


@pytest.mark.parametrize("wrong", [{"events_max": 0}, {"batch_bytes_max": -1}, {"event_bytes_max": 1 << 21}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReportLimits(**wrong)
    with pytest.raises(ValueError, match="first is not above most"):
        Retries(first=2.0, most=1.0)


def test_a_target_whose_close_raises_harms_nobody() -> None:
    class Sour(GatedTarget):
        def close(self) -> None:
            raise OSError("sour")

    for used in (True, False):
        reporter = Reporter(Sour(is_open=True), process="p")
        if used:
            reporter.event("one")
        assert reporter.close(MINUTE)
