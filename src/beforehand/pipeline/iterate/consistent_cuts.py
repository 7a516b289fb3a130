"""Cuts shrunk to the largest consistent cuts inside them, in rounds over the messages.

1. A cut that comes out is consistent: no message is received inside and sent outside.
2. It is the largest such cut inside the one given, for consistent cuts form a lattice.
3. Cuts that have not settled after `ROUNDS_MAX` rounds are given up; the others do not depend on them.

Each round every partition shrinks the cuts by its own messages until these are content, and the driver takes the
least of what they found: (number, cut, process) → index, never messages. Clocks that fit the messages need one round
to find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from beforehand.history.kernels import shrink
from beforehand.pipeline.schemas import NUMBER, RECEIVE_INDEX, RECEIVER, SEND_INDEX, SENDER, spark_type

__all__ = ["ROUNDS_MAX", "consistent_cuts"]

Integers = npt.NDArray[np.int64]

ROUNDS_MAX: Final = 60

_LOWERED: Final = pa.schema(
    [(NUMBER, pa.int32()), ("cut", pa.int32()), ("member", pa.int32()), ("index", pa.int64())]
)


def consistent_cuts(
    edges: DataFrame, cuts: Mapping[int, Integers], *, rounds_max: int = ROUNDS_MAX
) -> tuple[dict[int, Integers], int]:
    """Per number of an execution its cuts (cuts × processes, growing), and how many rounds it took.

    `edges` has number, sender, send_index, receiver, receive_index: the messages that were sent and received.
    """
    current = {number: of.copy() for number, of in cuts.items() if of.shape[0]}
    unsettled: set[tuple[int, int]] = set()
    rounds = 0
    while current and rounds < rounds_max:
        rounds += 1
        # At most one row per partition, cut and process.
        lowered = edges.mapInArrow(_shrinking(current), spark_type(_LOWERED)).toArrow()
        unsettled = set()
        for number, cut, member, index in zip(*(column.to_pylist() for column in lowered.columns), strict=True):
            current[number][cut, member] = min(current[number][cut, member], index)
            unsettled.add((number, cut))
        if not unsettled:
            break
    settled = {
        number: np.array([row for at, row in enumerate(of) if (number, at) not in unsettled], np.int64).reshape(
            -1, of.shape[1]
        )
        for number, of in current.items()
    }
    return {number: settled.get(number, of) for number, of in cuts.items()}, rounds


def _shrinking(cuts: dict[int, Integers]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        numbers = table[NUMBER].to_numpy()
        for number in np.unique(numbers).tolist():
            if number not in cuts:
                continue
            own = numbers == number
            mine = cuts[number].copy()
            shrink(
                table[SENDER].to_numpy()[own].astype(np.int32),
                table[SEND_INDEX].to_numpy()[own],
                table[RECEIVER].to_numpy()[own].astype(np.int32),
                table[RECEIVE_INDEX].to_numpy()[own],
                mine,
            )
            cut, member = np.nonzero(mine < cuts[number])
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(np.full(cut.size, number, np.int32)),
                    pa.array(cut.astype(np.int32)),
                    pa.array(member.astype(np.int32)),
                    pa.array(mine[cut, member]),
                ],
                schema=_LOWERED,
            )

    return run
