"""Errors carry fields, and travel between processes."""

from __future__ import annotations

import pickle

import pytest

from beforehand import errors

SAMPLES: list[errors.BeforehandError] = [
    errors.TooManyEventsError(tick=1, events_max=2),
    errors.ClockStepError(step_ms=3, limit_ms=2),
    errors.ClockExhaustedError(limit=9),
    errors.NotInViewError(process="p"),
    errors.BelowBaseError(process="p", count=1, base=2),
    errors.DestinationError(protocol="fifo", rule="a message needs a destination"),
    errors.BufferFullError(what="things", limit=3),
    errors.StampDecodeError("why"),
    errors.ViewMismatchError(expected="a", got="b"),
    errors.UnknownBaseError(base=3, have=None),
    errors.ImpossibleStampError(process="p", claimed=2, made=1),
    errors.FutureStampError(ahead=5, limit=3, unit="ms"),
    errors.DuplicateMessageError(sender="s", sequence=4),
    errors.NonParticipantError(peer="x"),
    errors.StampTooLargeError(size=9, limit=8),
    errors.DeliveryTimeoutError(missing=("p", 1)),
    errors.InputError("a line"),
    errors.PredicateError("bad", position=3),
    errors.UnknownEventError("p:1", ": hint"),
    errors.BrokerError("it is not there", may_have_happened=True),
    errors.InvariantError("bug"),
    errors.LocalProtocolError("rule"),
    errors.RemoteProtocolError("rule"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: errors.BeforehandError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_every_error_has_a_sample_here_and_a_place_in_the_tree() -> None:
    sampled = {type(error).__name__ for error in SAMPLES} | {"BeforehandError"}
    assert sampled == set(errors.__all__)
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in errors.__all__)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_one_line(error: errors.BeforehandError) -> None:
    assert str(error)
    assert "\n" not in str(error)
