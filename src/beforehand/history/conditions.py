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

__all__ = ["Conditions", "conditions"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

RECEIVES_MAX: Final = 20_000
"""The conditions are judged pair by pair; beyond this many receives that takes too long and is not done."""

CONDITIONS: Final = ("C1", "C2", "C3", "mysterious")


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
        return Conditions(dict.fromkeys(CONDITIONS), {}, (note,))
    message, send, receive = columns.receive_message[chosen], source[chosen], columns.receive_row[chosen]
    broken = dict.fromkeys(CONDITIONS, 0)
    witnesses: dict[str, tuple[str, str]] = {}
    for x in range(chosen.size):
        for name, wrong in _against(columns, stamps, message, send, receive, x).items():
            count = int(np.count_nonzero(wrong))
            if count and name not in witnesses:
                y = int(np.flatnonzero(wrong)[0])
                witnesses[name] = (columns.messages[message[x]], columns.messages[message[y]])
            broken[name] += count
    broken["mysterious"] //= 2  # It is symmetric: each pair was met twice.
    return Conditions(dict(broken), witnesses)


def _against(
    columns: Columns, stamps: Stamps, message: Integers, send: Integers, receive: Integers, x: int
) -> dict[str, Flags]:
    """Per condition, which receives break it together with receive x, x being message 1."""
    process, index = columns.process, columns.index
    s1, r1 = send[x], receive[x]
    other = message != message[x]
    s1_before_s2 = (stamps[send, process[s1]] >= index[s1]) & (send != s1)
    s1_before_r2 = (stamps[receive, process[s1]] >= index[s1]) & (receive != s1)
    s2_before_r1 = (stamps[r1, process[send]] >= index[send]) & (send != r1)
    r2_before_r1 = (stamps[r1, process[receive]] >= index[receive]) & (receive != r1)
    s1_first = (process[send] == process[s1]) & (index[send] > index[s1])
    r2_first = (process[receive] == process[r1]) & (index[receive] < index[r1])
    return {
        "C1": other & s1_before_s2 & r2_before_r1,
        "C2": other & s1_first & r2_before_r1,
        "C3": other & s1_before_s2 & r2_first,
        "mysterious": other & s1_before_r2 & s2_before_r1,
    }
