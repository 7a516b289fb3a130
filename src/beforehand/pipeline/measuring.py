"""Measures from the table of messages: aggregates small enough for the driver."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from beforehand.history.measures import TIME_MAX
from beforehand.pipeline.schemas import (
    CYCLE,
    INFERRED,
    OUTCOME,
    RECEIVE_PROCESS,
    RECEIVE_TIME,
    RECEIVED,
    RECEIVERS,
    SEND_PROCESS,
    SEND_TIME,
    SPREAD,
    UNRECEIVED,
    UNSENT,
)

__all__ = ["bin_bounds", "delay_bins", "delays", "message_counts", "pair_delays"]

DELAY: Final = "delay"
BIN: Final = "bin"
_PER_OCTAVE_BITS: Final = 2  # Bins double in four steps: 19 % wide on average.


def delays(messages: DataFrame) -> DataFrame:
    """The received messages with usable times at both ends: send_process, receive_process, delay. No shuffle."""
    usable = [F.col(name).between(-TIME_MAX + 1, TIME_MAX - 1) for name in (SEND_TIME, RECEIVE_TIME)]
    return messages.where((F.col(OUTCOME) == RECEIVED) & usable[0] & usable[1]).select(
        SEND_PROCESS, RECEIVE_PROCESS, F.try_subtract(RECEIVE_TIME, SEND_TIME).alias(DELAY)
    )


def pair_delays(delayed: DataFrame) -> DataFrame:
    """Per pair of processes that exchanged messages: count, the least and the greatest delay. Key: the pair."""
    return delayed.groupBy(SEND_PROCESS, RECEIVE_PROCESS).agg(
        F.count("*").alias("count"), F.min(DELAY).alias("least"), F.max(DELAY).alias("greatest")
    )


def delay_bins(delayed: DataFrame) -> DataFrame:
    """How many delays lie in each bin: bin, count. Bins are exact: whole numbers, see `bin_bounds`."""
    size = F.abs(DELAY)
    octave = F.length(F.bin(size)) - 1
    shift = F.greatest(octave - _PER_OCTAVE_BITS, F.lit(0))
    within = F.call_function("shiftright", size, shift).cast("int")
    number = F.when(size == 0, 0).otherwise(shift * (1 << _PER_OCTAVE_BITS) + within)
    signed = F.when(F.col(DELAY) < 0, -number).otherwise(number)
    return delayed.groupBy(signed.cast("int").alias(BIN)).agg(F.count("*").alias("count"))


def bin_bounds(number: int) -> tuple[int, int]:
    """The least and the greatest delay (ns) of a bin."""
    if number < 0:
        low, high = bin_bounds(-number)
        return -high, -low
    steps = 1 << _PER_OCTAVE_BITS
    if number < 2 * steps:
        return number, number
    shift, within = divmod(number, steps)
    shift, within = shift - 1, within + steps
    return within << shift, ((within + 1) << shift) - 1


def message_counts(messages: DataFrame) -> DataFrame:
    """One row: messages, receives, unreceived, unsent, inferred (receives of such), unsent_real (receives of
    messages that are not, and that nobody sent), rejected ends, tightness.
    """

    def count(outcome: str) -> F.Column:  # type: ignore[name-defined]
        return F.count(F.when(F.col(OUTCOME) == outcome, 1))

    return messages.agg(
        F.count(RECEIVERS).alias("messages"),
        (count(RECEIVED) + count(UNSENT)).alias("receives"),
        count(UNRECEIVED).alias("unreceived"),
        count(UNSENT).alias("unsent"),
        count(CYCLE).alias("cycle"),
        F.count(F.when(F.col(INFERRED) & F.col(OUTCOME).isin(RECEIVED, UNSENT), 1)).alias("inferred"),
        F.count(F.when(~F.col(INFERRED) & (F.col(OUTCOME) == UNSENT), 1)).alias("unsent_real"),
        F.max(SPREAD).alias("tightness"),
    )
