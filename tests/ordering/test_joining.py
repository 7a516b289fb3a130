"""Newcomers by hand: who may join, what they are told, what they deliver, and what becomes of it if members stop."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_membership import Group, run_settled

from beforehand.clocks import View
from beforehand.errors import LocalProtocolError, RemoteProtocolError
from beforehand.ordering import (
    CausalBroadcast,
    Coordinator,
    Fifo,
    Installed,
    LamportTotal,
    Membership,
    ReliableLink,
    RotatingToken,
    SinglePhase,
    Skeen,
    Transmit,
)
from beforehand.ordering.flush import Ballot, Install, InView, Prepare, Welcome
from beforehand.ordering.reliable_link import Frame
from beforehand.ordering.roster import NAMES_MAX

ALL = [Fifo, CausalBroadcast, Skeen, Coordinator, LamportTotal, SinglePhase, RotatingToken]


class Growing(Group):
    """A group that others can join."""

    def newcomer(self, name: str) -> None:
        protocol = type(next(iter(self.members.values())).within)

        def bare(name: str, view: View, number: int) -> Any:
            return protocol(name, view, number=number)

        self.members[name] = Membership.joining(name, bare, notice_interval=10)
        self.delivered[name], self.views[name] = [], []
        self.perform(name, self.members[name].tick(now=self.now))

    def admit(self, name: str, *others: str) -> None:
        self.perform(name, self.members[name].admit(others, now=self.now))


@pytest.mark.parametrize("protocol", ALL)
def test_a_newcomer_installs_the_view_of_the_others_and_delivers_what_is_sent_in_it(protocol: Any) -> None:
    group = Growing(protocol)
    group.send("a", b"before")
    group.run()
    group.newcomer("d")
    group.admit("b", "d")
    group.send("b", b"during")
    run_settled(group)
    group.send("d", b"after")
    run_settled(group)

    assert {name: [view.processes for view in views] for name, views in group.views.items()} == {
        name: [("a", "b", "c", "d")] for name in "abcd"
    }
    for name in "abc":
        assert group.payloads(name) == [b"before", b"during", b"after"]
    assert group.payloads("d") == [b"during", b"after"]
    assert group.check().passed


def test_a_name_is_used_once() -> None:
    group = Growing()
    group.gone.add("c")
    group.evict("a", "c")
    run_settled(group)
    before = group.members["a"].snapshot()
    with pytest.raises(LocalProtocolError, match=r"'c' was a member before.*such as 'c\.2'"):
        group.admit("a", "c")
    with pytest.raises(LocalProtocolError, match="'b' is a member already"):
        group.admit("a", "b")
    with pytest.raises(LocalProtocolError, match="needs a name"):
        group.admit("a", "")
    assert group.members["a"].snapshot() == before
    group.newcomer("c.2")
    group.admit("b", "c.2")
    run_settled(group)
    assert group.members["c.2"].view.processes == ("a", "b", "c.2")
    with pytest.raises(LocalProtocolError, match=r"such as 'c\.3'"):
        group.admit("c.2", "c")


def test_the_names_of_a_group_are_bounded() -> None:
    group = Growing()
    with pytest.raises(LocalProtocolError, match="names"):
        group.admit("a", *(f"n{at}" for at in range(NAMES_MAX - 2)))


def test_nobody_is_a_member_before_it_is_welcomed() -> None:
    newcomer = Membership.joining("d", lambda name, view, number: Fifo(name, view, number=number))
    for act in (
        lambda: newcomer.send(b"x", now=0),
        lambda: newcomer.leave(now=0),
        lambda: newcomer.evict(["a"], now=0),
        lambda: newcomer.admit(["e"], now=0),
    ):
        with pytest.raises(LocalProtocolError, match="not a member yet"):
            act()
    assert newcomer.receive("a", InView(view=3, packet=None), now=0) == []
    assert newcomer.tick(now=0) == []
    assert not newcomer.welcomed
    assert not newcomer.departed


@pytest.mark.parametrize("members", ["ab", "bd"])
def test_a_welcome_to_a_view_of_others_is_refused(members: str) -> None:
    newcomer = Membership.joining("d", lambda name, view, number: Fifo(name, view, number=number))
    welcome = Welcome(view=1, members=tuple((name, "") for name in members), past=())
    with pytest.raises(RemoteProtocolError, match="welcomes us"):
        newcomer.receive("a", welcome, now=0)
    assert not newcomer.welcomed


def test_one_welcome_is_enough_and_a_second_one_changes_nothing() -> None:
    group = Growing()
    group.newcomer("d")
    group.admit("a", "d")
    run_settled(group)
    again = Welcome(view=7, members=(("a", ""), ("d", "")), past=())
    assert group.members["d"].receive("a", again, now=group.now) == []
    assert [view.number for view in group.views["d"]] == [1]


def test_a_newcomer_is_told_where_the_others_are_found_and_which_names_are_used_up() -> None:
    def make(name: str, view: View, number: int) -> Fifo:
        return Fifo(name, view, number=number)

    view = View("ab")
    a = Membership("a", view, make, contacts={"a": "here", "b": "there"})
    b = Membership("b", view, make, contacts={"a": "here", "b": "there"})
    d = Membership.joining("d", make)
    members = {"a": a, "b": b, "d": d}
    flying = [("a", effect) for effect in a.admit({"d": "elsewhere"}, now=0)]
    while flying:
        name, effect = flying.pop(0)
        if isinstance(effect, Transmit):
            for to in effect.to:
                flying += [(to, each) for each in members[to].receive(name, effect.packet, now=0)]
    assert dict(a.contacts) == dict(b.contacts) == dict(d.contacts) == {"a": "here", "b": "there", "d": "elsewhere"}
    assert d.snapshot().roster == a.snapshot().roster
    with pytest.raises(LocalProtocolError, match="contact"):
        a.admit({"e": "x" * 1001}, now=0)


def test_one_request_to_remove_and_to_add_is_one_view() -> None:
    group = Growing(names="abcde")
    group.newcomer("e.2")
    group.gone.add("e")
    group.step()
    group.evict("a", "e")
    group.admit("a", "e.2")
    run_settled(group)
    assert [view.processes for view in group.views["b"]] == [("a", "b", "c", "d", "e.2")]
    assert group.views["b"] == group.views["e.2"]


@pytest.mark.parametrize("seed", range(60))
def test_requests_at_several_members_end_in_one_history_of_views(seed: int) -> None:
    rng = random.Random(seed)
    group = Growing(rng.choice(ALL[:6]), names="abcde", seed=seed)
    group.newcomer("x")
    group.newcomer("y")
    for name in "abc":
        group.send(name, name.encode())
    acts = [
        lambda: group.admit("a", "x"),
        lambda: group.admit("b", "y"),
        lambda: group.admit("c", "x"),
        lambda: group.stop("e"),
        lambda: group.evict("b", "e"),
    ]
    order = [acts[i] for i in rng.sample(range(3), 3)]
    order[rng.randrange(3) : 0] = acts[3:]
    for act in order:
        for _ in range(rng.randrange(3)):
            group.step()
        try:
            act()
        except LocalProtocolError as error:
            assert "is a member already" in str(error)  # noqa: PT017
    run_settled(group)
    group.send("x", b"from x")
    run_settled(group)
    last = group.views["a"][-1]
    assert set(last.processes) == set("abcdxy")
    for name in "bcdxy":
        assert group.views[name][-1] == last
        first = group.views[name][0].number
        assert group.views[name] == [view for view in group.views["a"] if view.number >= first]
    assert group.payloads("y")[-1:] == group.payloads("a")[-1:] == [b"from x"]


def test_a_leader_that_stops_for_good_takes_its_wish_with_it_or_all_install_it() -> None:
    for steps in range(12):
        group = Growing(names="abcde")
        group.newcomer("x")
        group.admit("a", "x")
        for _ in range(steps):
            group.step()
        group.stop("a")
        for _ in range(6):
            group.step()
        if "a" in group.members["b"].view:
            group.evict("b", "a")
        run_settled(group)
        views = {group.members[name].view for name in "bcde"}
        assert len(views) == 1
        members = views.pop().processes
        assert members in (("b", "c", "d", "e"), ("b", "c", "d", "e", "x"))
        assert group.members["x"].welcomed == ("x" in members)
        if "x" in members:
            assert group.members["x"].view.processes == members


def test_a_newcomer_that_never_comes_is_evicted_like_any_other() -> None:
    group = Growing()
    group.newcomer("d")
    group.gone.add("d")
    group.admit("a", "d")
    run_settled(group)
    group.evict("b", "d")
    run_settled(group)
    assert group.members["c"].view.processes == ("a", "b", "c")
    with pytest.raises(LocalProtocolError, match="was a member before"):
        group.admit("c", "d")


@pytest.mark.parametrize("joining", [(("b", ""),), (("z", ""),)])
def test_a_flush_that_admits_one_that_is_or_was_a_member_is_refused(joining: Any) -> None:
    group = Growing(names="abcz")
    group.gone.add("z")
    group.evict("a", "z")
    run_settled(group)
    with pytest.raises(RemoteProtocolError, match="is or was a member"):
        group.members["c"].receive(
            "a", Prepare(ballot=Ballot(1, 1, "a"), members=("a", "b", "c"), joining=joining), now=9
        )
    with pytest.raises(RemoteProtocolError, match="is or was a member"):
        group.members["c"].receive(
            "a", Install(ballot=Ballot(1, 1, "a"), members=("a", "b", "c"), messages=(), joining=joining), now=9
        )


def test_what_waits_for_the_view_and_is_for_everybody_goes_to_the_newcomer_and_the_rest_does_not() -> None:
    group = Growing(Fifo)
    group.newcomer("d")
    group.admit("a", "d")
    group.send("b", b"before it stops")  # Not yet told to stop.
    run_settled(group)
    assert group.payloads("d") == []
    group.newcomer("e")
    group.admit("a", "e")
    group.send("a", b"all")
    group.send("a", b"some", to=("b", "c", "d"))
    run_settled(group)
    assert group.payloads("e") == [b"all"]
    assert group.payloads("d") == [b"all", b"some"]


def test_a_newcomer_goes_on_from_its_snapshot_before_and_after_it_is_welcomed() -> None:
    group = Growing()
    group.newcomer("d")
    before = group.members["d"].snapshot()
    group.newcomer("d")
    group.members["d"].restore(before)
    group.admit("a", "d")
    run_settled(group)
    after = group.members["d"].snapshot()
    group.newcomer("d")
    group.members["d"].restore(after)
    assert group.members["d"].view.processes == ("a", "b", "c", "d")
    group.send("d", b"here I am")
    run_settled(group)
    assert group.payloads("b") == [b"here I am"]


def linked(name: str, view: View | None) -> ReliableLink:
    def make(name: str, view: View, number: int) -> Fifo:
        return Fifo(name, view, number=number)

    return ReliableLink(Membership.joining(name, make) if view is None else Membership(name, view, make))


def test_a_link_takes_nothing_of_a_stranger_and_of_a_member_only_its_welcome_first() -> None:
    d = linked("d", None)
    welcome = Welcome(view=1, members=(("a", ""), ("b", ""), ("d", "")), past=())
    for frame in (
        Frame(number=2, packet=welcome, mark=0),
        Frame(number=1, packet=InView(view=1, packet=None), mark=0),
        Frame(number=1, packet=Welcome(view=1, members=(("b", ""), ("d", "")), past=()), mark=0),
    ):
        with pytest.raises(RemoteProtocolError, match="not another member"):
            d.receive("a", frame, now=0)
    effects = d.receive("a", Frame(number=1, packet=welcome, mark=0), now=0)
    assert [effect.view.processes for effect in effects if isinstance(effect, Installed)] == [("a", "b", "d")]
    [answer] = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    assert answer.mark == 1
    assert d.receive("b", Frame(number=1, packet=welcome, mark=0), now=0)


def test_frames_of_one_that_is_being_admitted_come_again_and_are_taken_then() -> None:
    a = linked("a", View("a"))
    early = Frame(number=1, packet=InView(view=1, packet=None), mark=0)
    with pytest.raises(RemoteProtocolError, match="not another member"):
        a.receive("d", early, now=0)
    effects = a.admit(["d"], now=0)
    frames = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    assert [(frame.number, type(frame.packet)) for frame in frames] == [(1, Welcome)]
    [*_, answer] = [e.packet for e in a.receive("d", early, now=1) if isinstance(e, Transmit)]
    assert answer.mark == 1
