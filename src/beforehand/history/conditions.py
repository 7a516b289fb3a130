"""The finer conditions of Garg's problems 12.2 and 12.3, and how they relate.

For messages 1 and 2 with sends s1, s2 and receives r1, r2 (≺ is the order on one process):

    C1          s1 → s2  implies  not r2 → r1
    C2          s1 ≺ s2  implies  not r2 → r1
    C3          s1 → s2  implies  not r2 ≺ r1        causal order, as `check` has it
    mysterious  s1 → r2  implies  not s2 → r1        for messages that differ

C1 implies C2 and C3. Where every message goes to one process and every event sends or receives at most one, the
three are equivalent: of a chain r2 → r1 take the last message into r1's process, of a chain s1 → s2 the first out of
s1's. With multicast C2 is weaker than C3: the chain may leave s1's process on message 1 itself. With several
receives in one event C3 is weaker than C1: the chain may end in the very event r1. Mysterious order implies C1 (from
s1 → s2 → r2 and s2 → r2 → r1); two messages that cross are causally ordered and not mysteriously. The paper tests
have an example of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.columns import Columns
from beforehand.history.kernels import crossed_pairs

__all__ = ["Conditions", "conditions"]

Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]

RECEIVES_MAX: Final = 50_000
"""The conditions are judged pair by pair; beyond this many receives that takes too long and is not done."""

_NUMBERS: Final = {"C1": 1, "C2": 2, "C3": 3, "mysterious": 4}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Per condition, how many pairs of receives break it (None: not counted), and the first such pair."""

    broken: Mapping[str, int | None]
    witnesses: Mapping[str, tuple[str, str]]  # The messages 1 and 2.
    notes: tuple[str, ...] = ()

    def holds(self, condition: str) -> bool | None:
        count = self.broken[condition]
        return None if count is None else count == 0


def conditions(columns: Columns, stamps: Stamps, *, receives_max: int = RECEIVES_MAX) -> Conditions:
    source = columns.source
    chosen = np.flatnonzero((source >= 0) & columns.real[columns.receive_message]) if source.size else source
    if chosen.size > receives_max:
        note = f"{chosen.size} receives are more than {receives_max}: the conditions were not judged pair by pair"
        return Conditions(dict.fromkeys(_NUMBERS), {}, (note,))
    message, send, receive = columns.receive_message[chosen], source[chosen], columns.receive_row[chosen]
    broken: dict[str, int | None] = {}
    witnesses: dict[str, tuple[str, str]] = {}
    for name, number in _NUMBERS.items():
        witness = np.zeros(2, np.int64)
        broken[name] = int(
            crossed_pairs(number, message, send, receive, columns.process, columns.index, stamps, witness)
        )
        if broken[name]:
            first, second = (columns.messages[message[x]] for x in witness)
            witnesses[name] = (first, second)
    return Conditions(broken, witnesses)
