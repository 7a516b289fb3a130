"""The judge: reads the recorded history; of the protocol it asks only, at the end, whether anything still waits.

`judge_record` asks of a record alone, of a simulated run or of a real group (`journals`); `judge` asks of a simulated
run all of that, and what only the simulator knows.

What it asks, in this order:

  orders       the guarantees that the protocol promises, by the checks of `history`
  instants     of a synchronous order: every message can be given one
  places       a message has one place, the same for all, and places extend the order (in one view)
  integrity    nothing is delivered that was not sent, to whom it was not sent, or twice
  agreement    those who stay deliver the same in each view, and agree on the views
  stability    what one that left knew to be stable they have, and in the order in which it delivered it
  completeness everything sent by a process that stayed is delivered to every destination that stayed
  liveness     the world came to rest in time, nothing waits, and who was to join did

Members that left are out of completeness, and their deliveries out of the total order: the guarantee is for those who
stay. Members that joined are in it from their first view on; one that never was in a view, for the member that was
asked to admit it left, is out of it. A message that the protocol set aside and said so (`Discard`) is no loss. Where
a counter came to its end and the protocol said so, it need not go on: orders and integrity are asked for,
completeness and liveness are not.

Where levels are mixed, the level of the message that might come too early decides (see `Level`): a FIFO message may
overtake what its sender had received, and has no place in the total order. Then a process may know of a message that
it lacks; if it sends meanwhile and delivers to itself at once, as causal protocols do, its own message comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from beforehand.events import Event
from beforehand.history import History
from beforehand.ordering import Level, Place, Traits
from beforehand.ordering.message import NUMBER_MAX
from beforehand.sim.agreement import acknowledged, agreement
from beforehand.sim.coverage import OVERTAKING
from beforehand.sim.record import Record
from beforehand.sim.scenario import Scenario
from beforehand.sim.synchrony import synchrony
from beforehand.sim.world import World

__all__ = ["Verdict", "judge", "judge_record"]

FAILURES_MAX: Final = 8
"""Of each kind, so many failures are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a run kept each order, and all in which it broke a promise."""

    kept: dict[str, bool]  # `fifo`, `causal`, `total`: whether this run kept it, promised or not.
    failures: tuple[str, ...]  # One line each; empty: every promise was kept.

    @property
    def passed(self) -> bool:
        return not self.failures


def judge(world: World, traits: Traits) -> Verdict:
    """The verdict on a finished run."""
    record = world.record
    kept, kinds = _recorded(record, traits, places=not world.scenario.membership)
    if not record.exhausted:
        # TimedDelivery refuses what comes from a clock that is ahead of its own, and says so.
        timed = world.scenario.protocol == "timed-delivery" and not _in_time(world.scenario)
        behind = {(process, refused.process) for process, refused in record.refused} if timed else set()
        kinds += [[*_accounting(world), *_completeness(record, traits, behind=behind)], _liveness(world)]
    return _verdict(kept, kinds)


def judge_record(record: Record, traits: Traits) -> Verdict:
    """The verdict on what processes did until they came to rest, wherever they ran."""
    kept, kinds = _recorded(record, traits, places=not record.views)
    return _verdict(kept, [*kinds, _completeness(record, traits)])


def _recorded(record: Record, traits: Traits, *, places: bool) -> tuple[dict[str, bool], list[list[str]]]:
    kept, orders = _orders(record, traits)
    return kept, [
        orders,
        _places(record, traits) if places else [],
        _integrity(record),
        agreement(record),
        acknowledged(record, total=traits.total, weak=_weak(record, traits)),
        synchrony(record.events, without=record.departed) if traits.synchronous else [],
    ]


def _verdict(kept: dict[str, bool], kinds: Iterable[list[str]]) -> Verdict:
    return Verdict(kept=kept, failures=tuple(failure for kind in kinds for failure in kind[:FAILURES_MAX]))


def _orders(record: Record, traits: Traits) -> tuple[dict[str, bool], list[str]]:
    history = History(record.events)
    report = history.check(limit=3)
    counts = dict(report.counts)
    violations = list(report.violations)
    weak = _weak(record, traits)
    if record.departed or weak:
        ordered = [_deaf(e) if e.process in record.departed or weak & set(e.receives) else e for e in record.events]
        total = History(ordered).check(limit=3)
        counts["total"] = total.counts["total"]
        violations = [v for v in violations if v.kind != "total"] + [v for v in total.violations if v.kind == "total"]
    # On lanes, what precedes a send is what it declares, and that order is kept.
    promised = {"fifo": traits.fifo, "causal": traits.causal or record.lanes, "total": traits.total}
    failures = []
    if weak:
        failures = _causal_by_level(history, record, weak, own=traits.total) if traits.causal else []
        if counts["causal"] and not failures:
            record.seen.add(OVERTAKING)
        promised["causal"] = False
    failures += [f"{v.kind} order: {v.why}" for v in violations if promised.get(v.kind)]
    failures += [f"{kind} order: broken {counts[kind]} time(s)" for kind, p in promised.items() if p and counts[kind]]
    failures += [f"the history is impossible: {rejection.detail}" for rejection in history.rejections]
    return {kind: not counts[kind] for kind in promised}, failures


def _weak(record: Record, traits: Traits) -> set[str]:
    """The messages of level FIFO, where the protocol offers more."""
    if traits.levels[-1] is Level.FIFO:
        return set()
    return {message_id for message_id, (message, _) in record.sent.items() if message.level is Level.FIFO}


def _causal_by_level(history: History, record: Record, weak: set[str], *, own: bool) -> list[str]:
    """No message is delivered after one that is not weak and has it in its past; `own`: not even at its sender."""
    sends = {message_id: event for event in record.events for message_id in event.sends}
    pasts = {m: history.stamp(f"{event.process}:{event.index}") for m, event in sends.items() if m not in weak}
    failures = []
    for process, ids in record.delivered.items():
        known = [message_id for message_id in ids if message_id in sends]
        for at, late in enumerate(known):
            send = sends[late]
            failures += [
                f"causal order: {process} delivered {late} after {early}, although {late} was sent first"
                for early in known[:at]
                if early in pasts and early != late and pasts[early].get(send.process, 0) >= send.index
                if own or sends[early].process != process
            ]
    return failures


def _deaf(event: Event) -> Event:
    return replace(event, receives=())


def _places(record: Record, traits: Traits) -> list[str]:
    """One place per message; they grow along → where that is promised, and along the deliveries of a total order."""
    weak, places, failures = _weak(record, traits), dict[str, Place](), []
    for process, deliveries in record.places.items():
        last: Place | None = None
        for message_id, place in deliveries:
            if places.setdefault(message_id, place) != place:
                failures.append(f"{process} delivered {message_id} at {place}, another at {places[message_id]}")
            if traits.total and message_id not in weak:
                if last is not None and place <= last:
                    failures.append(f"{process} delivered {message_id} at {place} after something at {last}")
                last = place
    if any(place[:1] == (NUMBER_MAX,) for place in places.values()):
        return []  # At the end of the range a clock may stop: then places no longer tell.
    if not places:
        return failures  # A journal has none, and may have too many messages to look at all pairs.
    if traits.causal or record.lanes:
        failures += [
            f"{late} has the place {places[late]} and {early}, sent before it, {places[early]}"
            for early, late in _causal_pairs(record)
            if early in places and late in places and places[early] >= places[late]
        ]
    return failures


def _causal_pairs(record: Record) -> list[tuple[str, str]]:
    """All pairs of messages of which the first was sent before the second, in the sense of →."""
    history = History(record.events)
    sends = [(message_id, event) for event in record.events for message_id in event.sends]
    pasts = [(late, history.stamp(f"{event.process}:{event.index}")) for late, event in sends]
    return [
        (early, late)
        for late, past in pasts
        for early, event in sends
        if early != late and past.get(event.process, 0) >= event.index
    ]


def _integrity(record: Record) -> list[str]:
    failures = []
    for process, ids in record.delivered.items():
        for message_id, times in Counter(ids).items():
            sent = record.sent.get(message_id)
            if times > 1:
                failures.append(f"{process} delivered {message_id} {times} times")
            if sent is None:
                failures.append(f"{process} delivered {message_id}, which nobody sent")
            elif process not in sent[0].to:
                failures.append(f"{process} delivered {message_id}, which was not sent to it")
    return failures


def _aside(record: Record) -> set[tuple[str, str]]:
    """Who set which messages aside."""
    delivered = _delivered(record)
    return {
        (process, discard.message.id)
        for process, discard in record.discarded
        if discard.message.id not in delivered.get(process, ())  # Otherwise it was a repetition.
    }


def _delivered(record: Record) -> dict[str, set[str]]:
    return {process: set(ids) for process, ids in record.delivered.items()}


def _accounting(world: World) -> list[str]:
    """What was accepted is sent, and nothing that came in time is set aside."""
    record, failures, aside = world.record, [], _aside(world.record)
    if aside and _in_time(world.scenario):
        failures.append(f"{len(aside)} messages were set aside, and all came in time")
    sent = {int(message.payload) for message, _ in record.sent.values()}
    unsent = [at for at, process in record.accepted.items() if at not in sent and process not in record.departed]
    if len(unsent) > sum(refused.why.startswith("a message was not sent") for _, refused in record.refused):
        failures.append(f"{len(unsent)} messages were accepted and never sent")
    return failures


def _completeness(record: Record, traits: Traits, *, behind: Collection[tuple[str, str]] = ()) -> list[str]:
    """`behind` has pairs of a process and one whose messages it may lack."""
    aside, delivered, failures = _aside(record), _delivered(record), []
    passed_on = set[str]().union(*(ids for process, ids in delivered.items() if process not in record.departed))
    for message_id, (message, _) in record.sent.items():
        for process in message.to:
            if process in record.departed or (process, message_id) in aside:
                continue
            if (process, message.sender) in behind:
                continue
            if message.sender in record.departed and not (traits.views and message_id in passed_on):
                continue  # Without views nobody passes on what one that has stopped had sent to some.
            if message_id not in delivered.get(process, ()):
                failures.append(f"{process} never delivered {message_id}")
    return failures


def _in_time(scenario: Scenario) -> bool:
    """Whether what TimedDelivery and CausalMerge assume is true: packets come in time, clocks are never far apart."""
    options = {name: int(value) for name, value in scenario.options if isinstance(value, int)}
    offsets = [0, *(fault.offset for fault in scenario.clocks)]
    if len(scenario.clocks) == len(scenario.processes):
        offsets.remove(0)
    apart = max(offsets) - min(offsets)
    if scenario.protocol == "causal-merge":  # Its δ is on the receiver's clock.
        enough = options.get("delta", 0) >= scenario.delay.longest + apart and options.get("epsilon", 0) >= apart
    else:
        enough = options.get("delay_max", 0) >= scenario.delay.longest and options.get("uncertainty", 0) >= apart
    return enough and not (
        scenario.link
        or scenario.clogs
        or scenario.pauses
        or any(fault.drift_ppm or fault.steps for fault in scenario.clocks)
    )


def _liveness(world: World) -> list[str]:
    failures = []
    if not world.quiet:
        failures.append(f"the world had not come to rest {world.scenario.settle} ns after the last fault")
    failures += _outside(world)
    for member in world.members.values():
        if member.gone or not _ever_inside(world, member.name):
            continue
        if member.operations:
            failures.append(f"{member.name} could not send {len(member.operations)} of its messages")
        for pending in member.protocol.pending()[:3]:
            waits = pending.waits_for
            failures.append(
                f"{pending.message.id} still waits at {member.name} "
                f"for {waits.what} {waits.number} of {waits.process}"
            )
    return failures


def _outside(world: World) -> list[str]:
    """Newcomers that are still outside although who was to admit them is there, or somebody has them in its view."""
    departed, views = world.record.departed, world.record.views
    seen = {name for process, installed in views.items() if process not in departed for name in installed[-1][1]}
    return [
        f"{join.process} never became a member: {join.by} was to admit it"
        for join in world.scenario.joins
        if join.process not in views and join.process not in departed
        if join.by not in departed or join.process in seen
    ]


def _ever_inside(world: World, process: str) -> bool:
    return process in world.scenario.processes or process in world.record.views
