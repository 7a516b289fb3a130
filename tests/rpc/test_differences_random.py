"""Random histories of calls with faults: differences against the truth, and against full stamps step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from beforehand.errors import BeforehandError, UnknownBaseError
from beforehand.rpc import Arrival, Call, Causality, Link, Policies, Unstamped
from beforehand.rpc.headers import DIFFERENCE_HEADER

ACCEPT = Policies(unstamped=Unstamped.ACCEPT, deadline=0)


@dataclass
class Message:
    """What is on its way, with the truth beside it: what its sender knew, counted by the test itself."""

    headers: Mapping[str, str]
    truth: Mapping[str, int]
    sender: str
    call: Call
    caller: str
    address: str
    refused: bool = False


@dataclass
class World:
    """Processes that call each other, each with the stamps that are due to it."""

    draw: random.Random
    addresses: dict[str, list[str]]  # Per address the processes behind it.
    processes: dict[str, Causality] = field(default_factory=dict)
    truth: dict[str, dict[str, int]] = field(default_factory=dict)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    requests: list[Message] = field(default_factory=list)
    running: list[tuple[str, Arrival, Message]] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    born: int = 0

    def __post_init__(self) -> None:
        for names in self.addresses.values():
            for name in names:
                self.begin(name)

    def begin(self, name: str) -> None:
        self.processes[name] = Causality(name, policies=ACCEPT)
        self.truth[name] = {}

    def tick(self, name: str, learned: Mapping[str, int] | None = None) -> dict[str, int]:
        known = self.truth[name]
        for process, count in (learned or {}).items():
            known[process] = max(count, known.get(process, 0))
        known[name] = known.get(name, 0) + 1
        return dict(known)

    def step(self) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.event, 4),
            (self.call, 12),
            (self.receive_request, 16),
            (self.reply, 16),
            (self.receive_reply, 16),
            (self.lose, 2),
            (self.restart, 1),
        ]
        self.draw.choices([action for action, _ in actions], [weight for _, weight in actions])[0]()
        for name, causality in self.processes.items():
            assert causality.stamp().to_dict() == dict(sorted(self.truth[name].items())), name

    def event(self) -> None:
        name = self.draw.choice(list(self.processes))
        self.processes[name].event("local")
        self.tick(name)

    def call(self) -> None:
        caller = self.draw.choice(list(self.processes))
        address = self.draw.choice([a for a, names in self.addresses.items() if caller not in names])
        link = self.links.setdefault((caller, address), Link())
        call = self.processes[caller].request_out("do", link=link, again=self.draw.random() < 0.9)
        self.send(caller, call, address)

    def send(self, caller: str, call: Call, address: str) -> None:
        self.requests.append(Message(call.headers, self.tick(caller), caller, call, caller, address))

    def receive_request(self) -> None:
        if not self.requests:
            return
        at = self.draw.randrange(len(self.requests))
        message = self.requests[at]
        if self.draw.random() < 0.8:  # Else it stays, and comes again.
            del self.requests[at]
        receiver = self.draw.choice(self.addresses[message.address])
        try:
            arrival = self.processes[receiver].request_in("do", message.headers)
        except UnknownBaseError:
            self.seen["refused"] += 1
            self.replies.append(
                Message({}, {}, receiver, message.call, message.caller, message.address, refused=True)
            )
            return
        assert arrival.stamped
        self.seen["difference" if DIFFERENCE_HEADER in message.headers else "full"] += 1
        self.tick(receiver, message.truth)
        self.running.append((receiver, arrival, message))

    def reply(self) -> None:
        if not self.running:
            return
        receiver, arrival, message = self.running.pop(self.draw.randrange(len(self.running)))
        if receiver not in self.processes:
            return
        headers = self.processes[receiver].reply_out(arrival)
        truth = self.tick(receiver)
        self.replies.append(Message(headers, truth, receiver, message.call, message.caller, message.address))

    def receive_reply(self) -> None:
        if not self.replies:
            return
        message = self.replies.pop(self.draw.randrange(len(self.replies)))
        others = [reply for reply in self.replies if not reply.refused]
        if others and not message.refused and self.draw.random() < 0.1:
            self.mistaken(message, self.draw.choice(others))
            return
        caller = self.processes.get(message.caller)
        if caller is None:
            return
        if message.refused:
            again = caller.request_again(message.call)
            assert DIFFERENCE_HEADER not in again.headers
            self.tick(message.caller)
            self.send(message.caller, again, message.address)
            return
        caller.reply_in(message.call, message.headers)
        self.tick(message.caller, message.truth)

    def mistaken(self, call: Message, other: Message) -> None:
        """A cache answers with the reply to another request. It must not be merged by half."""
        caller = self.processes.get(call.caller)
        if caller is None:
            return
        caller.reply_in(call.call, other.headers)
        usable = DIFFERENCE_HEADER not in other.headers or other.caller == call.caller
        self.seen["reply to another"] += not usable
        self.tick(call.caller, other.truth if usable else None)

    def lose(self) -> None:
        lost = self.draw.choice([self.requests, self.replies])
        if not lost:
            return
        message = lost.pop(self.draw.randrange(len(lost)))
        if message.caller in self.processes:
            self.processes[message.caller].failed(message.call, "lost")
            self.tick(message.caller)

    def restart(self) -> None:
        address = self.draw.choice(list(self.addresses))
        names = self.addresses[address]
        old = self.draw.choice(names)
        self.born += 1
        new = f"{old.split('+')[0]}+{self.born}"
        names[names.index(old)] = new
        del self.processes[old], self.truth[old]
        for key in [key for key in self.links if key[0] == old]:
            del self.links[key]
        self.begin(new)
        self.seen["restarts"] += 1


def ran(seed: int) -> Counter[str]:
    world = World(random.Random(seed), {"web": ["web-1"], "cart": ["cart-1", "cart-2"], "stock": ["stock-1"]})
    for _ in range(400):
        world.step()
    return world.seen


@pytest.mark.parametrize("seed", range(30))
def test_with_all_faults_the_stamps_are_those_of_the_truth(seed: int) -> None:
    assert ran(seed)["difference"] > 0


def test_the_faults_of_the_random_histories_do_happen() -> None:
    seen = sum((ran(seed) for seed in range(10)), Counter[str]())

    assert min(seen[what] for what in ("difference", "full", "refused", "restarts", "reply to another")) >= 10


NAMES = ("a", "b", "c", "d")


class Twins:
    """The same processes twice: one world sends differences, the other full stamps. All is done to both."""

    def __init__(self, draw: random.Random, *, ordering: bool) -> None:
        self.draw = draw
        self.worlds = [
            {name: Causality(name, policies=ACCEPT, ordering=ordering) for name in NAMES} for _ in range(2)
        ]
        self.links = {(a, b): Link() for a in NAMES for b in NAMES}
        self.requests: list[tuple[str, str, tuple[Call, Call]]] = []
        self.running: list[tuple[str, str, tuple[Call, Call], tuple[Arrival, Arrival]]] = []
        self.replies: list[tuple[str, tuple[Call, Call], tuple[Mapping[str, str], Mapping[str, str]]]] = []
        self.waits = 0

    def step(self) -> None:
        often = [self.serve, self.answer, self.take]
        self.draw.choice([self.event, self.call, self.call, self.call, self.lose, *often, *often, *often, *often])()
        for name in NAMES:
            assert self.worlds[0][name].stamp() == self.worlds[1][name].stamp(), name

    def event(self) -> None:
        name = self.draw.choice(NAMES)
        for world in self.worlds:
            world[name].event("local")

    def call(self) -> None:
        a, b = self.draw.sample(NAMES, 2)
        first = self.worlds[0][a].request_out("do", to=b, link=self.links[a, b])
        self.requests.append((a, b, (first, self.worlds[1][a].request_out("do", to=b))))

    def serve(self) -> None:
        if not self.requests:
            return
        at = self.draw.randrange(len(self.requests))
        a, b, calls = self.requests[at]
        if self.draw.random() < 0.9:
            del self.requests[at]
        arrivals = self.both(lambda which: self.worlds[which][b].request_in("do", calls[which].headers))
        if arrivals is None:
            if (a, b, calls) not in self.requests:
                self.requests.append((a, b, calls))  # Its causes have not come: it is tried again later.
            self.waits += 1
        else:
            self.running.append((a, b, calls, arrivals))

    def answer(self) -> None:
        if not self.running:
            return
        a, b, calls, arrivals = self.running.pop(self.draw.randrange(len(self.running)))
        headers = tuple(self.worlds[which][b].reply_out(arrivals[which]) for which in (0, 1))
        self.replies.append((a, calls, headers))

    def take(self) -> None:
        if not self.replies:
            return
        a, calls, headers = self.replies.pop(self.draw.randrange(len(self.replies)))
        self.both(lambda which: self.worlds[which][a].reply_in(calls[which], headers[which]))

    def lose(self) -> None:
        if self.draw.random() < 0.7 or not self.requests:
            return
        a, _, calls = self.requests.pop(self.draw.randrange(len(self.requests)))
        for which in (0, 1):
            self.worlds[which][a].failed(calls[which], "lost")

    def both(self, act: Callable[[int], object]) -> tuple | None:
        """What it gives, if it is not refused; whether it is, and why, must be the same."""
        got: list[object] = []
        errors = []
        for which in (0, 1):
            try:
                got.append(act(which))
            except BeforehandError as error:
                errors.append((type(error), str(error)))
        assert len(errors) != 1, errors
        assert len({kind for kind, _ in errors}) <= 1
        return tuple(got) if not errors else None


@pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])
@pytest.mark.parametrize("seed", range(30))
def test_differences_and_full_stamps_are_received_alike(seed: int, ordering: bool) -> None:
    twins = Twins(random.Random(seed), ordering=ordering)
    for _ in range(300):
        twins.step()

    differing, full = ([world[name].figures() for name in NAMES] for world in twins.worlds)
    assert sum(figure.sent_differences for figure in differing) > 10
    assert sum(figure.sent_differences for figure in full) == 0
    assert sum(figure.bases_unknown + figure.stamps_refused for figure in differing) == 0
    assert (twins.waits > 0) == ordering
