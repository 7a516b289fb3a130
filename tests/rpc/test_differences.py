"""Stamps as differences: what they leave out is known, whatever is lost, repeated, late, restarted or forged."""

from __future__ import annotations

import msgspec
import pytest
from plans import Recorder, recorded_before

from beforehand.clocks import VectorStamp, View
from beforehand.errors import UnknownBaseError
from beforehand.rpc import Causality, Link, Policies, Unstamped
from beforehand.rpc.differences import BASES_MAX, Base, Difference, life_text
from beforehand.rpc.headers import DIFFERENCE_HEADER, LIFE_HEADER, MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER

STRICT = Policies(unstamped=Unstamped.REFUSE)
BOTH = pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])


def pair(
    *, ordering: bool = False, client: Policies = STRICT, server: Policies = STRICT
) -> tuple[Causality, Causality]:
    return (
        Causality("client", policies=client, ordering=ordering),
        Causality("server", policies=server, ordering=ordering),
    )


def called(client: Causality, server: Causality, link: Link) -> tuple[set[str], set[str]]:
    """One call: the names of the headers of its request and of its reply."""
    call = client.request_out("do", to="server", link=link)
    reply = server.reply_out(server.request_in("do", call.headers))
    client.reply_in(call, reply)
    return set(call.headers), set(reply)


def difference(headers: object) -> Difference:
    assert isinstance(headers, dict)
    return Difference.from_text(headers[DIFFERENCE_HEADER])


@BOTH
def test_the_first_request_is_full_and_all_after_it_are_differences(ordering: bool) -> None:
    client, server = pair(ordering=ordering)
    link = Link()

    first, second = called(client, server, link), called(client, server, link)

    assert first == ({MESSAGE_HEADER, STAMP_HEADER, LIFE_HEADER}, {DIFFERENCE_HEADER})
    assert second == ({DIFFERENCE_HEADER}, {DIFFERENCE_HEADER})
    assert client.stamp().to_dict() == {"client": 4, "server": 4}
    assert server.stamp().to_dict() == {"client": 3, "server": 4}
    assert (client.figures().sent, client.figures().sent_differences, server.figures().sent_differences) == (2, 1, 2)


@BOTH
def test_a_difference_has_what_changed_and_nothing_that_the_receiver_told(ordering: bool) -> None:
    client, server = pair(ordering=ordering)
    others = [Causality(f"other-{number}", ordering=ordering) for number in range(40)]
    link = Link()
    for other in others:
        client.request_in("news", other.request_out("news", to="client").headers)
    for _ in range(2):
        called(client, server, link)

    quiet = difference(client.request_out("do", to="server", link=link).headers)
    client.request_in("news", others[7].request_out("news", to="client").headers)
    heard = difference(client.request_out("do", to="server", link=link).headers)

    assert quiet.changes == {}
    assert heard.changes == {"other-7": 2}
    assert len(server.stamp()) == 42


def test_the_names_that_a_server_tells_are_not_told_back() -> None:
    client, server = pair()
    for number in range(40):
        server.request_in("news", Causality(f"other-{number}").request_out("news").headers)
    link = Link()
    called(client, server, link)

    assert difference(client.request_out("do", link=link).headers).changes == {}
    assert len(client.stamp()) == 42


@BOTH
def test_a_base_of_another_life_is_refused_and_the_request_goes_again_in_full(ordering: bool) -> None:
    client, server = pair(ordering=ordering)
    link = Link()
    called(client, server, link)
    restarted = Causality("server", policies=STRICT, ordering=ordering)
    for _ in range(10):
        restarted.event("has made more events than the base counts")
    before = restarted.stamp()

    call = client.request_out("do", to="server", link=link)
    with pytest.raises(UnknownBaseError):
        restarted.request_in("do", call.headers)
    again = client.request_again(call)

    assert restarted.stamp() == before
    assert restarted.figures().bases_unknown == client.figures().bases_unknown == 1
    assert STAMP_HEADER in again.headers
    assert again.headers[MESSAGE_HEADER] == "client:5"


def test_each_attempt_is_a_message_and_the_refused_one_was_received_by_nobody() -> None:  # Berry 1995, 3.8.
    recorder = Recorder()
    client = Causality("client", reporter=recorder.reporter("client"))
    servers = [Causality(name, reporter=recorder.reporter(name)) for name in ("server-1", "server-2")]
    link = Link()
    called(client, servers[0], link)

    refused = client.request_out("do", link=link)
    with pytest.raises(UnknownBaseError):
        servers[1].request_in("do", refused.headers)
    call = client.request_again(refused)
    client.reply_in(call, servers[1].reply_out(servers[1].request_in("do", call.headers)))

    events = recorder.events()
    mine = [(event.name, event.sends) for event in events if event.process == "client"]
    assert mine == [
        ("call do", ("client:1",)),
        ("answered do", ()),
        ("call do", ("client:3",)),
        ("call do refused", ()),
        ("call do", ("client:5",)),
        ("answered do", ()),
    ]
    assert not any("client:3" in event.receives for event in events)
    assert all("level" not in event.attributes for event in events)
    recorded_before(events)


def test_in_causal_ordering_the_refused_request_is_voided_by_the_one_that_follows() -> None:
    client, server = pair(ordering=True)
    link = Link()
    called(client, server, link)
    refused = client.request_out("do", to="server", link=link)

    again = client.request_again(refused)
    client.reply_in(again, server.reply_out(server.request_in("do", again.headers)))

    assert set(again.headers) == {MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER, LIFE_HEADER}
    assert server.figures().voided == 1
    assert client.figures().received == 2


def test_several_servers_behind_one_address_each_find_their_base() -> None:
    client = Causality("client", policies=STRICT)
    servers = [Causality(f"server-{number}", policies=STRICT) for number in range(3)]
    link = Link()
    for at in range(20):
        server = servers[at % 3]
        call = client.request_out("do", link=link)
        try:
            arrival = server.request_in("do", call.headers)
        except UnknownBaseError:
            call = client.request_again(call)
            server = servers[0]  # Where that one goes is not for the caller to say.
            arrival = server.request_in("do", call.headers)
        client.reply_in(call, server.reply_out(arrival))
    differences = client.figures().sent_differences

    for server in (servers[0], servers[2], servers[1], servers[1], servers[0]):
        called(client, server, link)

    assert client.figures().bases_unknown == 1
    assert client.figures().sent_differences == differences + 5
    assert client.stamp().to_dict() == {"client": 52, "server-0": 20, "server-1": 16, "server-2": 14}


@pytest.mark.parametrize("met", [0, 1])
def test_a_difference_to_several_bases_has_what_the_oldest_lacks(met: int) -> None:
    client, news = Causality("client", policies=STRICT), Causality("news", policies=STRICT)
    servers = [Causality(name, policies=STRICT) for name in ("server-1", "server-2")]
    link = Link()
    called(client, servers[0], link)
    client.request_in("news", news.request_out("news").headers)
    full = client.request_out("do", link=link, again=False)
    client.reply_in(full, servers[1].reply_out(servers[1].request_in("do", full.headers)))

    call = client.request_out("do", link=link)
    servers[met].request_in("do", call.headers)

    assert difference(call.headers).changes == {"news": 1, "server-1": 2, "server-2": 2}
    assert servers[met].stamp()["news"] == 1


def test_a_base_that_was_never_reached_is_refused() -> None:
    client, server = pair()
    link = Link()
    called(client, server, link)
    honest = difference(client.request_out("do", link=link).headers)
    forged = msgspec.structs.replace(honest, bases=dict.fromkeys(honest.bases, 99))

    with pytest.raises(UnknownBaseError):
        server.request_in("do", {DIFFERENCE_HEADER: forged.text()})

    assert server.stamp().to_dict() == {"client": 1, "server": 2}


def test_a_reply_to_somebody_else_is_as_good_as_one_without_a_stamp() -> None:
    """As a cache between them may give it: the difference is to what the other one knew."""
    accepting = Policies(unstamped=Unstamped.ACCEPT)
    a, b = (Causality(name, policies=accepting) for name in ("a", "b"))
    server = Causality("server", policies=accepting)
    for number in range(3):
        a.request_in("news", Causality(f"other-{number}").request_out("news").headers)
    first, second = a.request_out("get", link=Link()), b.request_out("get", link=Link())

    b.reply_in(second, server.reply_out(server.request_in("get", first.headers)))

    assert b.stamp().to_dict() == {"b": 2}
    assert (b.figures().bases_unknown, b.figures().stamps_refused, b.figures().received_unstamped) == (1, 1, 1)


LIFE = bytes(8)


def packed(*fields: object) -> str:
    return life_text(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize(
    "headers",
    [
        {DIFFERENCE_HEADER: ""},
        {DIFFERENCE_HEADER: "not base64"},
        {DIFFERENCE_HEADER: life_text(b"\x97")},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1})},  # Too short.
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {}, 1)},  # Neither of the two forms.
        {DIFFERENCE_HEADER: packed("", 1, LIFE, {LIFE: 1}, {})},
        {DIFFERENCE_HEADER: packed("peer", 0, LIFE, {LIFE: 1}, {})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE[:7], {LIFE: 1}, {})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {}, {})},  # No base.
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {bytes([n]) * 8: 1 for n in range(9)}, {})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"x": 0})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"x": 2**63})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"x": 1.5})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"": 1})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"peer": 2})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {}, 0, {})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {}, 1, {"x": {}})},
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {"n" * 7000: 1})},  # Above the limit.
        {DIFFERENCE_HEADER: packed("peer", 1, LIFE, {LIFE: 1}, {}), MESSAGE_HEADER: "peer:1"},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: VectorStamp({"peer": 1}).to_text(), LIFE_HEADER: "AAAA"},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: VectorStamp({"peer": 1}).to_text(), LIFE_HEADER: "!"},
    ],
)
@BOTH
def test_a_bad_difference_is_counted_and_nothing_of_it_is_taken_over(headers: dict[str, str], ordering: bool) -> None:
    server = Causality("server", policies=Policies(unstamped=Unstamped.ACCEPT), ordering=ordering)

    arrival = server.request_in("do", headers)

    assert not arrival.stamped
    assert server.stamp().to_dict() == {"server": 1}
    assert server.figures().stamps_refused == server.figures().received_unstamped == 1


@pytest.mark.parametrize("changes", [{"server": 99}, {"mallory": 1}])
def test_the_entries_of_a_difference_are_held_to_the_same_rules(changes: dict[str, int]) -> None:
    client = Causality("client")
    server = Causality("server", known=lambda process: process != "mallory")
    link = Link()
    called(client, server, link)
    forged = msgspec.structs.replace(difference(client.request_out("do", link=link).headers), changes=changes)

    arrival = server.request_in("do", {DIFFERENCE_HEADER: forged.text()})

    assert not arrival.stamped
    assert server.stamp().to_dict() == {"client": 1, "server": 3}


@BOTH
def test_a_table_beyond_all_that_is_known_is_refused_as_in_full_stamps(ordering: bool) -> None:
    client, server = pair(ordering=True, server=Policies(unstamped=Unstamped.ACCEPT))
    link = Link()
    called(client, server, link)
    honest = difference(client.request_out("do", to="server", link=link).headers)
    row = {"nobody": 5} if ordering else {"client": honest.count}  # It would wait for ever; for itself.
    forged = msgspec.structs.replace(honest, rows={"server": row})

    arrival = server.request_in("do", {DIFFERENCE_HEADER: forged.text()})

    assert not arrival.stamped
    assert server.figures().stamps_refused == 1


@pytest.mark.parametrize("who", ["client", "server"])
@BOTH
def test_who_does_not_want_to_send_differences_still_takes_them(who: str, ordering: bool) -> None:
    off = Policies(unstamped=Unstamped.REFUSE, differences=False)
    client, server = pair(ordering=ordering, client=off) if who == "client" else pair(ordering=ordering, server=off)
    link = Link()
    sent = [called(client, server, link) for _ in range(3)]

    assert all(DIFFERENCE_HEADER not in request | reply for request, reply in sent)
    assert client.stamp().to_dict() == {"client": 6, "server": 6}


def test_lanes_send_full_stamps() -> None:
    client, server = Causality("client", lanes=1, policies=STRICT), Causality("server", lanes=1, policies=STRICT)
    link = Link()
    with client.task(), server.task():
        sent = [called(client, server, link) for _ in range(2)]

    assert sent == [({MESSAGE_HEADER, STAMP_HEADER}, {MESSAGE_HEADER, STAMP_HEADER})] * 2


def test_a_difference_above_the_limit_goes_as_a_full_stamp_if_that_is_shorter() -> None:
    names = [f"a process with a long name that all of them share, number {number}" for number in range(60)]
    client, server = pair()
    for name in names:
        server.request_in("news", Causality(name).request_out("news").headers)
    link = Link()
    call = client.request_out("do", limit=3000, link=link)

    reply = server.reply_out(server.request_in("do", call.headers, limit=3000))
    client.reply_in(call, reply)

    assert set(reply) == {MESSAGE_HEADER, STAMP_HEADER, LIFE_HEADER}
    assert set(client.request_out("do", link=link).headers) == {DIFFERENCE_HEADER}
    assert client.stamp().to_dict()[names[0]] == 1


def test_differences_fit_beside_a_view() -> None:
    view = View(["client", "server", *(f"other-{number}" for number in range(20))])
    client, server = Causality("client", view=view), Causality("server", view=view)
    link = Link()

    assert called(client, server, link)[0] == {MESSAGE_HEADER, STAMP_HEADER, LIFE_HEADER}
    assert called(client, server, link)[0] == {DIFFERENCE_HEADER}


def test_a_request_that_cannot_be_sent_twice_is_always_full() -> None:
    client, server = pair()
    link = Link()
    called(client, server, link)

    assert STAMP_HEADER in client.request_out("do", link=link, again=False).headers


def test_a_link_keeps_few_bases_and_none_that_lag() -> None:
    link = Link()
    for number in range(BASES_MAX + 3):
        link.answered(b"me", Base(f"p{number}", bytes([number]) * 8, 1, 100 + number, {}))

    kept = [base.process for base in link.bases(b"me")]
    link.answered(b"me", Base("new", b"new life", 1, 500, {}))

    assert kept == [f"p{number}" for number in range(3, BASES_MAX + 3)]
    assert [base.process for base in link.bases(b"me")] == ["new"]
    assert link.bases(b"another life of the caller") == ()


def test_a_reply_that_comes_late_does_not_take_a_base_back() -> None:
    link = Link()
    link.answered(b"me", Base("p", b"its life", 7, 70, {}))
    link.answered(b"me", Base("p", b"its life", 5, 50, {}))

    assert [base.event for base in link.bases(b"me")] == [7]


def test_refusals_soon_after_each_other_make_a_link_pause_for_longer() -> None:
    link = Link()
    base = Base("p", b"its life", 1, 1, {})
    link.answered(b"me", base)

    def full() -> int:
        """Requests that go in full until the next difference."""
        for number in range(100):
            if link.bases(b"me"):
                return number
        raise AssertionError

    paused = []
    for _ in range(5):
        link.refused()
        paused.append(full())
    for _ in range(64):
        link.answered(b"me", base)
    link.refused()

    assert paused == [8, 16, 32, 64, 64]
    assert full() == 8
