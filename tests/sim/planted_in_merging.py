"""Planted bugs that the stabilization campaign must catch: in the clocks and in the mergers' buffers.

    python tests/sim/planted_in_merging.py      how many seeds it takes to catch each

A bug is looked for in the kinds of faults in `run`, seed by seed.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import product
from typing import Any

from mutants import Bug, build_entry, source_of

from beforehand.sim.stabilizing import Fault

ENTRY = "beforehand.sim.stabilizing.trial"
SEEDS = 300
"""A bug must show in the first so many seeds of one of its kinds of faults."""

MERGING = "ordering.merging"
BOUNDED = "clocks.bounded"

BUGS = (
    # The buffer.
    Bug(
        "merging: late is a tick later",
        MERGING,
        "if arrival > stamp.r + self.bounds.delta:",
        "if arrival >= stamp.r + self.bounds.delta:",
        ("none",),
        "P7: what takes δ is set aside",
    ),
    Bug(
        "merging: future is a tick sooner",
        MERGING,
        "if stamp.r > arrival + self.bounds.epsilon:",
        "if stamp.r >= arrival + max(self.bounds.epsilon, 1):",
        ("none",),
        "P7: a message from a clock that is ε ahead is set aside",
    ),
    Bug(
        "merging: no check of the lemmas",
        MERGING,
        "            if bounds.broken(stamp.c, stamp.kn):\n                return SetAside.CORRUPTED\n",
        "",
        ("stamps", "initial", "all"),
        "P5: a corrupted c holds an entry far ahead, or has no key at all",
    ),
    Bug(
        "merging: epsilon 0 waits no tick more",
        MERGING,
        "return self.bounds.delta + max(self.bounds.epsilon, 1)",
        "return self.bounds.delta + self.bounds.epsilon",
        ("none",),
        "P7: of two that take δ one is passed",
    ),
    Bug(
        "merging: due too soon",
        MERGING,
        'return int.from_bytes(key[:8].ljust(8, b"\\0")) - BIAS + self.wait',
        'return int.from_bytes(key[:8].ljust(8, b"\\0")) - BIAS + self.bounds.delta - 1',
        ("none",),
        "P6: a message leaves before one that precedes it has come",
    ),
    Bug(
        "merging: waits longer than it must",
        MERGING,
        'return int.from_bytes(key[:8].ljust(8, b"\\0")) - BIAS + self.wait',
        'return int.from_bytes(key[:8].ljust(8, b"\\0")) - BIAS + self.wait + 3',
        ("none",),
        "P3: lemma 4.2",
    ),
    Bug(
        "merging: keys without the counts",
        MERGING,
        'middle = b"".join([count.to_bytes(size) for count in rest])',
        'middle = b""',
        ("none",),
        "P6: events of one reading are not told apart",
    ),
    Bug(
        "merging: keys without the publisher",
        MERGING,
        'message.publisher.encode(), b"\\0", message.sequence',
        "message.sequence",
        ("none",),
        "P2: messages of two publishers are taken for repetitions",
    ),
    Bug(
        "merging: a passed key that cannot be is kept",
        MERGING,
        '            self._passed = b""  # Nothing due so far ahead can have been released.',
        "            pass",
        ("mergers", "initial", "clocks"),
        "P5: everything is set aside as passed for ever",
    ),
    Bug(
        "merging: what is due far ahead stays",
        MERGING,
        "wrong = [key for key in self._waiting if self.rules.due_of(key) > latest]",
        "wrong = []",
        ("mergers", "initial"),
        "P5: a ghost is released when its time comes",
    ),
    Bug(
        "merging: the front is never found anew",
        MERGING,
        "        self._heap = list(self._waiting)\n        heapify(self._heap)\n        self._made = time\n",
        "        self._made = time\n",
        ("mergers", "initial"),
        "P5: a heap that is none stays one",
    ),
    Bug(
        "merging: mends once and never again",
        MERGING,
        "if self._made is not None and self._made <= time <= self._made + self.rules.span:",
        "if self._made is not None:",
        ("mergers",),
        "P5: a fault after the first advance stays",
    ),
    Bug(
        "merging: mends only as time goes back",
        MERGING,
        "if self._made is not None and self._made <= time <= self._made + self.rules.span:",
        "if self._made is not None and self._made <= time:",
        ("mergers",),
        "P5: the same",
    ),
    Bug(
        "merging: due of a key that is too short",
        MERGING,
        'int.from_bytes(key[:8].ljust(8, b"\\0"))',
        "int.from_bytes(key[:8])",
        ("mergers", "initial"),
        "P5: a short key in `_passed` refuses everything for ever; found by this campaign",
    ),
    Bug(
        "merging: a key of the heap that waits no more",
        MERGING,
        "            if key in self._waiting:  # P5: after a fault it may not be.\n",
        "            if True:\n",
        ("mergers", "initial"),
        "P5: it raises",
    ),
    # The clocks.
    Bug(
        "bounded: no reset of the own state",
        BOUNDED,
        "            self._c, self._kn = 0, self._fresh()\n        return self._stamp()",
        "            pass\n        return self._stamp()",
        ("publishers", "initial"),
        "P4: what a fault left in c or kn goes out with every stamp",
    ),
    Bug(
        "bounded: counts above n·K pass",
        BOUNDED,
        "return max(kn) > self.count_max or min(kn) < 0",
        "return min(kn) < 0",
        ("stamps", "all"),
        "P4: lemma 3.4 is not looked at: a count grows beyond its room in a key",
    ),
    Bug(
        "bounded: negative counts pass",
        BOUNDED,
        "return max(kn) > self.count_max or min(kn) < 0",
        "return max(kn) > self.count_max",
        ("publishers", "initial"),
        "P4: a negative count is not reset but raises",
    ),
    Bug(
        "bounded: no hold",
        BOUNDED,
        "if stamp.r + c >= now + self._width:",
        "if stamp.r + c >= now + 10**9:",
        ("none",),
        "P3: c reaches ε, the state is reset and the send does not precede its receive",
    ),
    Bug(
        "bounded: what is received is not merged",
        BOUNDED,
        "self._kn = list(map(max, mine, theirs))",
        "self._kn = mine",
        ("none",),
        "P1: a receive does not follow its send",
    ),
    Bug(
        "bounded: c of a message is not taken over",
        BOUNDED,
        "self._c = max(0, self._r + self._c - now, stamp.r + c - now)",
        "self._c = max(0, self._r + self._c - now)",
        ("none",),
        "P1: the latest known reading is forgotten",
    ),
    Bug(
        "bounded: c is forgotten at each event",
        BOUNDED,
        "            self._c = max(0, self._r + self._c - now)\n",
        "            self._c = 0\n",
        ("none",),
        "P1: an event is ordered before one in its past",
    ),
    Bug(
        "bounded: kn is shifted the wrong way",
        BOUNDED,
        "theirs = self._shifted(kn, now - stamp.r)",
        "theirs = self._shifted(kn, stamp.r - now)",
        ("none",),
        "P1: counts stand at other readings",
    ),
    Bug(
        "bounded: a tick that was counted full stays so",
        BOUNDED,
        "taken = self._in_tick if now == self._tick else 0",
        "taken = self._in_tick",
        ("publishers", "none"),
        "no event for ever",
    ),
)

EQUIVALENT = (
    Bug(
        "merging: keys with the counts from below",
        MERGING,
        'middle = b"".join([count.to_bytes(size) for count in rest])',
        'middle = b"".join([count.to_bytes(size) for count in reversed(rest)])',
        ("none",),
        "Where r + c is equal, all counts of e are at most those of f: any order of comparing them extends →.",
    ),
    Bug(
        "merging: a repetition takes the place of the first",
        MERGING,
        "        if key in self._waiting:\n            return SetAside.REPEATED\n",
        "",
        ("duplication",),
        "The item is the same, and its second key in the heap finds nothing: only that it came twice is not said.",
    ),
    Bug(
        "bounded: no reset of a message's stamp",
        BOUNDED,
        "            if mended:\n                c, kn = 0, self._fresh()\n",
        "",
        ("stamps", "garbage", "all"),
        "Our own state breaks the lemmas then and is reset as the event ends; a huge c is held until it is late.",
    ),
    Bug(
        "bounded: late messages are received",
        BOUNDED,
        "if now > stamp.r + self.bounds.delta:",
        "if now > stamp.r + self.bounds.modulus:",
        ("stamps", "delays", "garbage", "all"),
        "What is older says less: c and kn of a late stamp lie below what is known here.",
    ),
    Bug(
        "bounded: stamps from the future are received",
        BOUNDED,
        "if stamp.r > now + self.bounds.epsilon:",
        "if stamp.r > now + 10**9:",
        ("stamps", "clocks", "all"),
        "The hold keeps them at the door until they are late, or no longer in the future.",
    ),
)
"""Changes that break no promise; what is in `breaks` is why. The test sees that they are not caught."""

KNOWN: dict[str, tuple[str, int]] = {
    "merging: late is a tick later": ("none", 1),
    "merging: future is a tick sooner": ("none", 1),
    "merging: no check of the lemmas": ("stamps", 3),
    "merging: epsilon 0 waits no tick more": ("none", 5),
    "merging: due too soon": ("none", 1),
    "merging: waits longer than it must": ("none", 0),
    "merging: keys without the counts": ("none", 0),
    "merging: keys without the publisher": ("none", 1),
    "merging: a passed key that cannot be is kept": ("initial", 5),
    "merging: what is due far ahead stays": ("initial", 2),
    "merging: the front is never found anew": ("mergers", 42),
    "merging: mends once and never again": ("mergers", 8),
    "merging: mends only as time goes back": ("mergers", 4),
    "merging: due of a key that is too short": ("initial", 4),
    "merging: a key of the heap that waits no more": ("mergers", 0),
    "bounded: no reset of the own state": ("publishers", 0),
    "bounded: counts above n·K pass": ("stamps", 3),
    "bounded: negative counts pass": ("publishers", 23),
    "bounded: no hold": ("none", 1),
    "bounded: what is received is not merged": ("none", 0),
    "bounded: c of a message is not taken over": ("none", 0),
    "bounded: c is forgotten at each event": ("none", 1),
    "bounded: kn is shifted the wrong way": ("none", 0),
    "bounded: a tick that was counted full stays so": ("publishers", 0),
}
"""By name a kind of fault and a seed that catch it."""


def shows(trial: Any, fault: str, seed: int) -> str | None:
    """What is wrong with a run, if anything."""
    try:
        result = trial.try_seed(Fault(fault), seed)
    except Exception as error:  # noqa: BLE001 (whatever a bug raises, it has shown itself)
        return f"{type(error).__name__}: {error}"
    return None if result.passed else f"{result.failures[0].question}: {result.failures[0].text}"


@cache
def with_bug(bug: Bug) -> Any:
    return build_entry(bug.module, source_of(bug), ENTRY)


def catch(bug: Bug, seeds: int = SEEDS) -> tuple[str, int, str] | None:
    """The first kind and seed in which the bug shows, and what is said then."""
    trial = with_bug(bug)
    for seed, fault in product(range(seeds), bug.run):
        failure = shows(trial, fault, seed)
        if failure is not None:
            return fault, seed, failure
    return None


if __name__ == "__main__":
    for one in BUGS:
        if not sys.argv[1:] or any(word in one.name for word in sys.argv[1:]):
            sys.stdout.write(f"{one.name}: {catch(one) or 'NOT CAUGHT'}\n")
            sys.stdout.flush()
