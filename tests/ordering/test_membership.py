"""Membership by hand: who may be removed, what a flush delivers, what is stable, who is told."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from beforehand.clocks import View
from beforehand.errors import LocalProtocolError, NotInViewError, RemoteProtocolError
from beforehand.ordering import (
    PROTOCOLS,
    CausalBroadcast,
    Coordinator,
    Fifo,
    Installed,
    Level,
    Membership,
    Message,
    Owed,
    Persist,
    Refused,
    Rendezvous,
    SetTimer,
    Skeen,
    Transmit,
)
from beforehand.ordering.fifo import FifoPacket
from beforehand.ordering.flush import (
    Accepted,
    Acknowledged,
    Awaited,
    Ballot,
    Behind,
    Gone,
    Install,
    InView,
    Outvoted,
    Prepare,
    Proposed,
    Reported,
    Stable,
)
from beforehand.ordering.protocol import Held
from ordering.wires import Wires


class Group(Wires):
    """Members over wires that keep their order; some may be deaf and dumb."""

    def __init__(self, protocol: Any = Fifo, names: str = "abc", **options: Any) -> None:
        def make(name: str, view: View) -> Membership:
            def bare(name: str, view: View, number: int) -> Any:
                return protocol(name, view, number=number)

            return Membership(name, view, bare, notice_interval=10)

        super().__init__(make, names, fifo=True, **options)
        self.gone: set[str] = set()
        self.views: dict[str, list[View]] = {name: [] for name in names}

    def perform(self, name: str, effects: Any) -> None:
        effects = list(effects)
        self.views[name] += [effect.view for effect in effects if isinstance(effect, Installed)]
        super().perform(name, effects)

    def step(self) -> bool:
        self.flying = [packet for packet in self.flying if packet[1] not in self.gone]
        for name in self.gone:
            self.timers.pop(name, None)
        return super().step()

    def stop(self, name: str) -> None:
        self.gone.add(name)
        self.step()

    def evict(self, name: str, *others: str, **options: Any) -> None:
        self.perform(name, self.members[name].evict(others, now=self.now, **options))

    def leave(self, name: str) -> None:
        self.perform(name, self.members[name].leave(now=self.now))

    def payloads(self, name: str) -> list[bytes]:
        return [message.payload for message in self.delivered[name]]


def run_settled(group: Group) -> None:
    """Until nothing but asking again is left."""
    for _ in range(400):
        if not group.flying and not group.timers:
            return
        group.step()


@pytest.mark.parametrize("protocol", [Fifo, CausalBroadcast, Skeen, Coordinator])
def test_those_who_stay_install_one_view_and_go_on(protocol: Any) -> None:
    group = Group(protocol)
    group.send("c", b"before")
    group.run()
    group.gone.add("c")
    group.evict("a", "c")
    group.send("a", b"during")
    run_settled(group)
    group.send("b", b"after")
    run_settled(group)

    assert [view.processes for view in group.views["a"]] == [("a", "b")]
    assert group.views["a"] == group.views["b"]
    assert group.payloads("a") == group.payloads("b") == [b"before", b"during", b"after"]
    assert group.check().passed


def test_what_only_one_of_those_who_stay_got_is_delivered_to_all_of_them() -> None:
    group = Group()
    group.send("c", b"x")
    group.flying = [packet for packet in group.flying if packet[1] != "b"]  # b's copy is lost, and then c is.
    group.step()
    group.gone.add("c")
    group.evict("b", "c")
    run_settled(group)
    assert group.payloads("a") == group.payloads("b") == [b"x"]


def test_a_member_leaves_and_what_it_sent_is_delivered() -> None:
    group = Group()
    group.send("c", b"last words")
    group.leave("c")
    run_settled(group)
    assert group.payloads("a") == group.payloads("b") == [b"last words"]
    assert group.members["c"].departed
    with pytest.raises(LocalProtocolError, match="no longer a member"):
        group.send("c", b"ghost")
    assert group.members["c"].receive("a", InView(view=9, packet=None), now=0) == []


def test_what_one_that_leaves_sends_afterwards_is_refused_and_not_lost_silently() -> None:
    group = Group()
    group.leave("c")
    group.send("c", b"too late")
    run_settled(group)
    assert group.members["c"].departed
    assert [refused.why for refused in group.refused] == [
        "a message was not sent: this process is no longer a member"
    ]
    assert group.payloads("a") == []


def test_no_majority_no_view_unless_forced() -> None:
    group = Group(names="ab")
    before = group.members["a"].snapshot()
    with pytest.raises(LocalProtocolError, match="1 of 2 members are no majority"):
        group.evict("a", "b")
    assert group.members["a"].snapshot() == before
    group.gone.add("b")
    group.evict("a", "b", force=True)
    assert group.members["a"].view.processes == ("a",)


def test_a_member_does_not_evict_itself_and_the_last_one_does_not_leave() -> None:
    group = Group(names="ab")
    with pytest.raises(LocalProtocolError, match="it leaves"):
        group.evict("a", "a")
    group.gone.add("b")
    group.evict("a", "b", force=True)
    with pytest.raises(LocalProtocolError, match="last member"):
        group.leave("a")


def test_what_is_sent_to_one_that_left_is_refused() -> None:
    group = Group()
    group.gone.add("c")
    group.evict("a", "c")
    run_settled(group)
    with pytest.raises(NotInViewError):
        group.send("a", b"x", ["c"])


def test_what_waited_for_the_view_and_has_nobody_to_go_to_is_told() -> None:
    group = Group()
    group.gone.add("c")
    group.evict("a", "c")
    group.send("a", b"too late", ["c"])
    run_settled(group)
    assert [refused.why for refused in group.refused] == [
        "a message was not sent: all whom it should go to have left",
    ]
    assert all(isinstance(refused, Refused) for refused in group.refused)


def test_missing_says_who_has_not_reported_and_who_owes_a_view() -> None:
    group = Group()
    group.gone |= {"b", "c"}
    group.evict("a", "c")
    [owed] = group.members["a"].missing()
    assert (owed.process, owed.what) == ("b", Owed.REPORT)
    group.gone.discard("b")
    a_prepares = Prepare(ballot=Ballot(0, 1, "a"), members=("a", "b"))
    group.members["b"].receive("a", a_prepares, now=0)
    [owed] = group.members["b"].missing()
    assert (owed.process, owed.what, owed.number) == ("a", Owed.VIEW, 1)


def test_a_message_is_stable_when_all_have_delivered_it_and_everybody_learns_it() -> None:
    group = Group()
    group.send("a", b"1")
    assert group.members["a"].stable()["a"] == 0
    group.run()
    assert [group.members[name].stable()["a"] for name in "abc"] == [1, 1, 1]


def test_an_evicted_one_that_still_lives_is_told() -> None:
    group = Group()
    group.gone.add("c")
    group.evict("a", "c")
    run_settled(group)
    group.gone.clear()
    group.send("c", b"hello?")
    run_settled(group)
    assert group.members["c"].departed
    assert b"hello?" not in group.payloads("a")


def test_a_smaller_ballot_is_outvoted_and_its_proposal_is_not_accepted() -> None:
    c = Group().members["c"]
    large, small = Ballot(0, 2, "a"), Ballot(0, 1, "b")
    c.receive("b", Prepare(ballot=small, members=("a", "b", "c")), now=0)
    [_, reported, _] = c.receive("a", Prepare(ballot=large, members=("a", "c")), now=1)
    assert isinstance(reported.packet, Reported)
    [_, outvoted] = c.receive("b", Prepare(ballot=small, members=("a", "b", "c")), now=1)
    assert outvoted.packet == Outvoted(ballot=small, promised=large)
    [_, outvoted] = c.receive("b", Proposed(ballot=small, members=("b", "c"), messages=()), now=1)
    assert outvoted.packet == Outvoted(ballot=small, promised=large)
    assert c.view.number == 0


def held(number: int, place: Any, **more: Any) -> Held:
    return Held(message=Message(sender="b", number=number, to=("a", "b"), payload=b"x"), place=place, **more)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"held": (held(1, ("b", 1)), held(2, (2, "b")))}, id="a number for a name"),
        pytest.param({"held": (held(1, ()),)}, id="an empty place"),
        pytest.param({"held": (held(1, ("b", 1)), held(2, None))}, id="none where all have one"),
        pytest.param({"held": (held(1, ("b", 1), final=False),)}, id="a proposal without a time"),
        pytest.param({"held": (held(1, ("b", 1)),), "reached": (7,)}, id="reached what is no place here"),
        pytest.param(
            {"held": (), "accepted": Proposed(ballot=Ballot(0, 1, "b"), members=("a", "z"), messages=())},
            id="accepted a stranger",
        ),
    ],
)
def test_a_report_that_could_not_be_settled_is_refused_and_the_flush_goes_on(bad: dict[str, Any]) -> None:
    a = Group().members["a"]
    [prepare] = [effect.packet for effect in a.evict(["c"], now=0) if isinstance(effect, Transmit)]
    before = a.snapshot()
    with pytest.raises(RemoteProtocolError):
        a.receive("b", Reported(ballot=prepare.ballot, time=0, stable=(), **bad), now=1)
    assert a.snapshot() == before
    good = Reported(ballot=prepare.ballot, time=0, stable=(), held=(held(1, ("b", 1)),))
    [proposed] = [e.packet for e in a.receive("b", good, now=2) if isinstance(e, Transmit)]
    assert [message.id for message, _ in proposed.messages] == ["b.1"]


def test_what_one_of_them_accepted_is_how_the_view_ends_whoever_leads_then() -> None:
    c = Group(names="abcde").members["c"]
    c.receive("a", Prepare(ballot=Ballot(0, 1, "a"), members=("a", "c", "e")), now=0)
    accepted = Proposed(ballot=Ballot(0, 1, "a"), members=("a", "c", "e"), messages=())
    [_, answer] = c.receive("a", accepted, now=0)
    assert answer.packet == Accepted(ballot=Ballot(0, 1, "a"))

    effects = c.evict(["a"], now=1)
    [prepare] = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    assert prepare.members == ("b", "c", "d", "e")  # That b and d are to go was a's word, and now a goes.
    for name in "bde":
        effects = c.receive(name, Reported(ballot=prepare.ballot, held=(), time=0, stable=()), now=1)
    [proposed] = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    assert proposed == Proposed(ballot=prepare.ballot, members=("a", "c", "e"), messages=())


def test_a_view_that_is_installed_is_taken_whomever_one_has_promised_oneself_to() -> None:
    c = Group().members["c"]
    c.receive("a", Prepare(ballot=Ballot(0, 2, "a"), members=("a", "b", "c")), now=0)
    effects = c.receive("b", Install(ballot=Ballot(0, 1, "b"), members=("b", "c"), messages=()), now=0)
    assert [effect.view.processes for effect in effects if isinstance(effect, Installed)] == [("b", "c")]


def test_one_that_the_group_went_on_without_asks_and_is_told() -> None:
    group = Group(names="abcde")
    group.evict("a", "e")
    e = group.members["e"]
    e.receive("b", Prepare(ballot=Ballot(0, 1, "b"), members=tuple("abcde")), now=0)  # Of a flush that gave way.
    assert e.flushing
    run_settled(group)
    group.now += 100
    group.perform("e", e.tick(now=group.now))
    run_settled(group)
    assert e.departed
    assert group.members["b"].view.processes == tuple("abcd")


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("a", Install(ballot=Ballot(0, 1, "a"), members=("a", "z"), messages=())),
        ("a", Prepare(ballot=Ballot(0, 1, "b"), members=("a", "b", "c"))),
        ("a", Prepare(ballot=Ballot(0, 1, "a"), members=("a", "b"))),
        ("a", Prepare(ballot=Ballot(0, 1, "a"), members=("a", "c", "z"))),
        ("a", Acknowledged(view=0, numbers=(5,))),
        ("a", "nonsense"),
        ("c", Stable(view=0, number=1)),
    ],
)
def test_what_a_member_must_not_say_is_refused_and_changes_nothing(sender: str, packet: Any) -> None:
    c = Group().members["c"]
    before = c.snapshot()
    with pytest.raises(RemoteProtocolError):
        c.receive(sender, packet, now=0)
    assert c.snapshot() == before


def acknowledgements(effects: Any) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    packets = [(effect.to, effect.packet) for effect in effects if isinstance(effect, Transmit)]
    return [(to, packet.numbers) for to, packet in packets if isinstance(packet, Acknowledged)]


def of_a(number: int) -> InView:
    message = Message(sender="a", number=number, to=("b",), payload=b"", level=Level.FIFO)
    return InView(view=0, packet=FifoPacket(message=message, numbers=(number,)))


def test_a_delivery_is_acknowledged_after_the_interval_and_at_once_to_who_waits_for_it() -> None:
    b = Membership("b", View("ab"), lambda n, v, k: Fifo(n, v, number=k), notice_interval=1_000)
    assert not acknowledgements(b.receive("a", of_a(1), now=0))
    assert acknowledgements(b.receive("a", Awaited(), now=1)) == [(("a",), (1,))]
    # The next ones are gathered, for a hundredth of the interval, since the last.
    assert not acknowledgements(b.receive("a", of_a(2), now=5))
    assert not acknowledgements(b.receive("a", of_a(3), now=9))
    assert acknowledgements(b.tick(now=11)) == [(("a",), (2, 3))]
    assert acknowledgements(b.receive("a", of_a(4), now=100)) == [(("a",), (4,))]


def test_what_is_owed_soon_does_not_make_the_timer_spin_while_the_view_is_flushed() -> None:
    b = Membership("b", View("abc"), lambda n, v, k: Fifo(n, v, number=k), notice_interval=1_000)
    b.receive("a", Awaited(), now=0)
    b.receive("a", of_a(1), now=0)
    b.receive("a", of_a(2), now=3)  # To be acknowledged at 10.
    b.receive("a", Prepare(ballot=Ballot(0, 1, "a"), members=("a", "b")), now=5)
    assert b.flushing
    timers = [effect.at for effect in b.tick(now=10) if isinstance(effect, SetTimer)]
    assert timers
    assert all(at is None or at > 10 for at in timers)


def test_who_is_waited_for_remembers_it_across_a_crash() -> None:
    b = Membership("b", View("ab"), lambda n, v, k: Fifo(n, v, number=k))
    assert Persist() in b.receive("a", Awaited(), now=0)
    back = Membership("b", View("ab"), lambda n, v, k: Fifo(n, v, number=k))
    back.restore(b.snapshot())
    assert acknowledgements(back.receive("a", of_a(1), now=1)) == [(("a",), (1,))]


def test_others_are_asked_once_and_newcomers_too() -> None:
    group = Group(names="ab")
    a = group.members["a"]
    asked = [effect for effect in a.hasten(now=0) if isinstance(effect, Transmit)]
    assert asked == [Transmit(to=("b",), packet=Awaited())]
    assert not a.hasten(now=0)
    group.perform("b", group.members["b"].receive("a", Awaited(), now=0))
    group.members["c"] = Membership.joining("c", lambda n, v, k: Fifo(n, v, number=k), notice_interval=10)
    group.views["c"] = []
    group.perform("a", a.admit(["c"], now=0))
    run_settled(group)
    assert group.members["c"].snapshot().waiting == group.members["b"].snapshot().waiting == ("a",)


def test_who_has_not_acknowledged_a_message_is_named() -> None:
    group = Group()
    group.gone.add("c")
    group.send("a", b"x")
    group.run()
    assert group.members["a"].lacking(1) == ("c",)
    assert group.members["a"].lacking(7) == ()


def test_a_snapshot_in_the_middle_of_a_flush_goes_on() -> None:
    group = Group()
    group.send("b", b"x")
    group.gone.add("c")
    group.evict("a", "c")
    leader = group.members["a"]
    back = Membership("a", group.view, lambda n, v, k: Fifo(n, v, number=k), notice_interval=10)
    back.restore(leader.snapshot())
    assert back.snapshot() == leader.snapshot()
    group.members["a"] = back
    run_settled(group)
    assert group.views["a"] == group.views["b"] != []
    assert group.payloads("a") == group.payloads("b") == [b"x"]


def test_gone_is_believed_only_if_it_says_that_we_are_out() -> None:
    c = Group().members["c"]
    assert c.receive("a", Gone(view=3, members=("a", "b", "c")), now=0) == []
    effects = c.receive("a", Gone(view=1, members=("a", "b")), now=0)
    assert [effect.view.processes for effect in effects if isinstance(effect, Installed)] == [("a", "b")]


def test_one_whose_leader_gave_way_to_one_that_it_does_not_follow_leads_itself_in_the_end() -> None:
    d = Group(names="abcde").members["d"]
    d.receive("c", Prepare(ballot=Ballot(0, 1, "c"), members=("b", "c", "d")), now=0)  # So a and e are to go.
    assert d.receive("e", Prepare(ballot=Ballot(0, 2, "e"), members=("b", "c", "d", "e")), now=1)[0] == Persist()
    asked = [d.tick(now=now) for now in (40, 120, 280)]
    leads = [[type(e.packet) for e in effects if isinstance(e, Transmit)] for effects in asked]
    assert leads == [[Behind], [Behind], [Prepare]]


class SlowGroup(Group):
    """Every packet takes `delay`, and timers go off meanwhile."""

    def __init__(self, delay: int, **options: Any) -> None:
        super().__init__(**options)
        self.delay = delay
        self.under_way: deque[tuple[int, tuple[str, str, Any]]] = deque()

    def step(self) -> bool:
        self.under_way.extend((self.now + self.delay, packet) for packet in self.flying)
        self.flying.clear()
        due = min(self.timers.values(), default=None)
        if self.under_way and (due is None or self.under_way[0][0] <= max(due, self.now)):
            arrival, packet = self.under_way.popleft()
            self.now = max(self.now, arrival)
            self.flying.append(packet)
        return super().step() or bool(self.under_way)


@pytest.mark.parametrize("delay", [10, 100, 1_000])
def test_leaders_do_not_outvote_each_other_for_ever_on_a_slow_network(delay: int) -> None:
    group = SlowGroup(delay, names="abcde")
    group.stop("e")
    group.evict("c", "e")
    group.run(steps_max=3_000)
    assert [group.views[name][-1].processes for name in "abcd"] == [("a", "b", "c", "d")] * 4


def test_a_flush_makes_no_crown_of_rendezvous_messages() -> None:
    """z sends y, then delivers m1; a sends m1, then m2; so c must deliver y before m2, which both are slow."""
    group = Group(Rendezvous, names="zcad")
    z, c, a = (group.members[name] for name in "zca")

    def packets(effects: Any, to: str) -> list[Any]:
        return [effect.packet for effect in effects if isinstance(effect, Transmit) and to in effect.to]

    [request] = packets(z.send(b"y", ["c"], now=0), "c")
    [permission] = packets(c.receive("z", request, now=0), "z")
    z.receive("c", permission, now=0)  # y leaves and is lost on the way.
    [first] = packets(a.send(b"m1", ["z"], now=0), "z")
    [acknowledgement] = packets(z.receive("a", first, now=0), "a")
    a.receive("z", acknowledgement, now=0)
    a.send(b"m2", ["c"], now=0)  # m2 as well.
    group.stop("d")
    group.evict("z", "d")
    run_settled(group)
    assert group.payloads("c") == [b"y", b"m2"]


STAYING = {
    "independent-sends": {},
    "timed-delivery": {"delay_max": 10},
    "causal-merge": {"epsilon": 1, "delta": 10},
}


def test_these_protocols_have_no_views_and_all_others_do() -> None:
    assert {name for name, protocol in PROTOCOLS.items() if not protocol.traits.views} == set(STAYING)


@pytest.mark.parametrize("order", STAYING)
def test_a_protocol_without_views_is_refused_in_one_line(order: str) -> None:
    def make(name: str, view: View, number: int) -> Any:
        return PROTOCOLS[order](name, view, number=number, **STAYING[order])

    said = f"^{order} has no views: its members stay, without a Membership$"
    with pytest.raises(LocalProtocolError, match=said):
        Membership("a", View("abc"), make)
    with pytest.raises(LocalProtocolError, match=said):
        Membership.joining("d", make)
