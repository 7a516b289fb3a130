"""All planted bugs, and the command that looks for them anew:

    python tests/sim/planted_bugs.py            how many scenarios it takes to catch each, from seed 0
    python tests/sim/planted_bugs.py --write    the same, and keep the seeds that catch them, for the test
    python tests/sim/planted_bugs.py skeen      only those with this in their names

A bug that no scenario catches is a hole in the simulator, or no bug: then it belongs into `EQUIVALENT`, with the
reason.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import quantiles

from mutants import Bug, Catch, search
from planted_in_causal import CAUSAL
from planted_in_causal_merge import CAUSAL_MERGE
from planted_in_layers import GROUPS, LAYERS
from planted_in_times import TIMES
from planted_in_total import TOTAL

SEEDS = 800
"""A bug must show in the first so many seeds of one of the protocols that it is looked for in."""

KNOWN_PATH = Path(__file__).with_name("planted_seeds.json")
KNOWN: dict[str, tuple[str, int, int]] = json.loads(KNOWN_PATH.read_text()) if KNOWN_PATH.exists() else {}
"""By name the protocol and the seed that catch it, and how many scenarios were tried from seed 0 on."""

BUGS = (*CAUSAL, *TOTAL, *TIMES, *LAYERS, *CAUSAL_MERGE)

EQUIVALENT = (
    Bug(
        "fifo: no Persist for what waits",
        "ordering.fifo",
        "        effects.changed = True\n        self._waiting.setdefault",
        "        self._waiting.setdefault",
        ("fifo",),
        "A process survives crashes only over a link, and the link persists whatever it hands over: `_hand_over`.",
    ),
    Bug(
        "link: no Persist for what is handed over",
        "ordering.reliable_link",
        "        call.changed = True\n        return True",
        "        return True",
        ("fifo", "coordinator"),
        "Every arrival is answered by a frame in the same call, and what transmits persists: `Effects.transmit`. An "
        "early frame that changes nothing within may be handed over once more after a crash.",
    ),
    Bug(
        "link: a repetition above the mark is handed over",
        "ordering.reliable_link",
        "if frame.number in peer.arrived:",
        "if frame.number <= peer.arrived.mark:",
        ("fifo", "skeen", "coordinator"),
        "Without order the protocol within takes repetitions by itself; with order the frame is put over its equal "
        "among the early ones: the mark is never below what was handed over.",
    ),
    Bug(
        "causal broadcast: the next of its sender has no room either",
        "ordering.causal_broadcast",
        "if spot is not None and number > self._delivered[at] + 1:",
        "if spot is not None:",
        ("causal-broadcast",),
        "The link offers it again, and what it waits for is never refused: of all that is not delivered here, the "
        "first in causal order misses nothing, so it needs no room.",
    ),
    Bug(
        "coordinator: a report without what was asked for",
        "ordering.coordinator",
        "Held(message=message, place=None) for message in self._asked.values()",
        "Held(message=message, place=None) for message in ()",
        ("coordinator",),
        "Only a membership asks for reports, and its stability keeps everything sent that is not stable itself.",
    ),
    Bug(
        "rotating token: a repetition while holding is an error, not a repetition",
        "ordering.rotating_token",
        "if token.hop <= self._hop:",
        "if token.hop < self._hop:",
        ("rotating-token",),
        "A token of our own last hop can only come while we hold it, and is refused then: nothing changes either way",
    ),
    Bug(
        "view change: who is evicted still leads",
        "ordering.view_change",
        "if sender in self.wanted and self.may_go_on_without(self.wanted):",
        "if sender not in self._view.processes:",
        GROUPS,
        "Those who wait in vain ask, and after asking twice one of them leads a flush itself: it takes longer. Not "
        "caught in 1,500 seeds of each protocol.",
    ),
    Bug(
        "view change: restore forgets the flush that it leads",
        "ordering.view_change",
        "= snapshot.promised, snapshot.prepare",
        "= snapshot.promised, None",
        GROUPS,
        "Those who wait in vain ask, and after asking twice one of them leads a flush itself: it takes longer. Not "
        "caught in 1,500 seeds of each protocol.",
    ),
)
"""Changes that break no promise; what is in `breaks` is why. The test sees that they are not caught."""


def _search(bug: Bug) -> Catch | None:
    return search(bug, SEEDS)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    only = [a for a in arguments if a != "--write"]
    bugs = [bug for bug in BUGS if not only or any(text in bug.name for text in only)]
    caught: dict[str, Catch] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for bug, catch in zip(bugs, pool.map(_search, bugs), strict=True):
            if catch is None:
                _tell(f"   -  {bug.name}: NOT CAUGHT")
            else:
                caught[bug.name] = catch
                _tell(f"{catch.tried + 1:4d}  {bug.name} ({catch.protocol} {catch.seed}: {catch.failure})")
    tries = sorted(catch.tried + 1 for catch in caught.values())
    if len(tries) > 1:
        median, ninety = quantiles(tries, n=10)[4], quantiles(tries, n=10)[8]
        _tell(f"{len(tries)} of {len(bugs)} caught; median {median:.0f}, nine in ten {ninety:.0f}, most {tries[-1]}")
    if "--write" in arguments:
        known = {**KNOWN, **{name: (catch.protocol, catch.seed, catch.tried) for name, catch in caught.items()}}
        names = {bug.name for bug in BUGS}
        lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known) if name in names]
        KNOWN_PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return len(bugs) - len(caught)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
