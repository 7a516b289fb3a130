"""Garg, problem 12.7: groups whose leaders alone talk outside, and what that saves."""

from __future__ import annotations

from beforehand.clocks import View
from beforehand.ordering import Deliver
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.group_leaders import GroupLeaders
from ordering.wires import Wires

NAMES = "abcdefghijklmnop"
GROUPS = ["abcd", "efgh", "ijkl", "mnop"]


def numbers_carried(make, sender: str, to: str) -> list[int]:
    """How many counts each packet carries on the way of one message."""
    wires = Wires(make, NAMES)
    wires.send(sender, b"", [to])
    carried = []
    while wires.flying:
        carried.append(len(wires.flying[0][2].stamp.counts))
        wires.step()
    wires.check_complete()
    return carried


def grouped(name: str, view: View) -> GroupLeaders:
    return GroupLeaders(name, view, groups=GROUPS)


def test_problem_12_7_matrices_have_the_size_of_a_group_instead_of_that_of_the_system() -> None:
    assert numbers_carried(CausalUnicast, "b", "d") == [256]
    assert numbers_carried(grouped, "b", "d") == [16]
    assert numbers_carried(grouped, "b", "p") == [16, 16, 16]


def test_problem_12_7_only_leaders_talk_outside() -> None:
    wires = Wires(grouped, NAMES, seed=1)
    for name in NAMES:
        wires.send(name, b"", None)
    links = set()
    while wires.flying:
        links |= {packet[:2] for packet in wires.flying}
        wires.step()
    group = {name: g for g in GROUPS for name in g}
    assert {link for link in links if group[link[0]] != group[link[1]]} == {
        (p, q) for p in "aeim" for q in "aeim" if p != q
    }
    wires.check_complete()


def test_problem_12_7_order_is_causal_across_groups() -> None:
    # Figure 12.1 with P1, P2 and P3 in three groups: b to n directly, or by way of f.
    members = {name: grouped(name, View(NAMES)) for name in NAMES}

    def carry(sender: str, packet, *, last: str) -> list[bytes]:
        """Take the packet along its route up to `last`: what the end of the route delivers."""
        while True:
            effects = members[last[0]].receive(sender, packet, now=0)
            if len(last) == 1:
                return [e.message.payload for e in effects if isinstance(e, Deliver)]
            sender, last, packet = last[0], last[1:], effects[-1].packet

    direct = members["b"].send(b"direct", ["n"], now=0)[-1].packet
    first_leg = members["b"].send(b"first leg", ["f"], now=0)[-1].packet
    held = members["a"].receive("b", first_leg, now=0)
    assert [type(e).__name__ for e in held] == ["Persist"]  # At the first leader already.
    effects = members["a"].receive("b", direct, now=0)
    to_m, to_e = (e for e in effects[1:])
    assert (to_m.to, to_e.to) == (("m",), ("e",))
    assert carry("a", to_e.packet, last="ef") == [b"first leg"]
    second_leg = members["f"].send(b"second leg", ["n"], now=0)[-1].packet
    onward = members["e"].receive("f", second_leg, now=0)[-1].packet
    assert len(members["m"].receive("e", onward, now=0)) == 1  # It waits at n's leader for what comes from a.
    assert [e.packet.message.payload for e in members["m"].receive("a", to_m.packet, now=0)[1:]] == [
        b"direct",
        b"second leg",
    ]
