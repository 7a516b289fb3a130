"""Every error that Beforehand raises, as one tree.

    BeforehandError
    ├── LocalProtocolError         our caller broke the rules; the state is as it was before the call
    │   ├── TooManyEventsError     more events in one tick than a BoundedClock was told to expect
    │   ├── ClockStepError         the machine's clock jumped ahead further than allowed
    │   ├── ClockExhaustedError    a counter reached the end of its range
    │   ├── NotInViewError         a stamp names a process that the agreed view does not have
    │   ├── BelowBaseError         a stamp lies below the cut that lag coding counts from
    │   ├── DestinationError       a protocol does not send to such a set of processes
    │   └── BufferFullError        a bounded buffer is full and its policy is to refuse
    ├── RemoteProtocolError        a peer broke the rules; nothing of what it said was taken over
    │   ├── StampDecodeError       bytes or text that are not a stamp in canonical form
    │   ├── ViewMismatchError      a stamp was written in another view than ours
    │   ├── UnknownBaseError       a differential stamp builds on one that we do not have
    │   ├── ImpossibleStampError   a stamp claims events that cannot have happened
    │   ├── FutureStampError       a stamp lies further ahead of our clock than allowed
    │   ├── DuplicateMessageError  a message that was received before
    │   └── NonParticipantError    a message without a stamp, from a peer that must carry one
    ├── StampTooLargeError         a stamp above its size limit, sending or receiving: never truncated
    ├── DeliveryTimeoutError       a message was still not deliverable at its deadline (a TimeoutError too)
    ├── InputError                 input that cannot be used; says what, where and what to do
    │   ├── PredicateError         a `where` expression that cannot be read or evaluated
    │   └── UnknownEventError      an event id that the history does not have
    ├── BrokerError                a broker that cannot be reached or used; says whether something may have happened
    └── InvariantError             we have a bug: stop

Errors carry what they know as attributes, so that programs need not read the text. An error raised by
a call means that the call changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "BeforehandError",
    "BelowBaseError",
    "BrokerError",
    "BufferFullError",
    "ClockExhaustedError",
    "ClockStepError",
    "DeliveryTimeoutError",
    "DestinationError",
    "DuplicateMessageError",
    "FutureStampError",
    "ImpossibleStampError",
    "InputError",
    "InvariantError",
    "LocalProtocolError",
    "NonParticipantError",
    "NotInViewError",
    "PredicateError",
    "RemoteProtocolError",
    "StampDecodeError",
    "StampTooLargeError",
    "TooManyEventsError",
    "UnknownBaseError",
    "UnknownEventError",
    "ViewMismatchError",
]


class BeforehandError(Exception):
    """The base of every error that Beforehand raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., BeforehandError], tuple[object, ...]]:
        # Errors travel between processes (pools, Spark). Their constructors take fields, not the text.
        return (_rebuilt, (type(self), self.args, self.__dict__))


def _rebuilt(kind: type[BeforehandError], args: tuple[object, ...], fields: dict[str, object]) -> BeforehandError:
    error = kind.__new__(kind, *args)
    error.args = args  # A TimeoutError takes them in its __init__ only.
    error.__dict__.update(fields)
    return error


class LocalProtocolError(BeforehandError):
    """Our caller broke the rules. Nothing has changed."""


class TooManyEventsError(LocalProtocolError):
    """More than `events_max` events in tick `tick`; the next tick has room again."""

    def __init__(self, *, tick: int, events_max: int) -> None:
        super().__init__(f"more than {events_max} event(s) in tick {tick}: raise events_per_tick or use a finer tick")
        self.tick = tick
        self.events_max = events_max


class ClockStepError(LocalProtocolError):
    """The physical clock moved ahead by `step_ms` more than time passed."""

    def __init__(self, *, step_ms: int, limit_ms: int) -> None:
        super().__init__(
            f"the machine's clock jumped ahead by {step_ms} ms (limit {limit_ms} ms): "
            "mend the clock, or accept it with accept_step()"
        )
        self.step_ms = step_ms
        self.limit_ms = limit_ms


class ClockExhaustedError(LocalProtocolError):
    """A counter reached its largest value, `limit`."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"the clock has reached its largest value, {limit}")
        self.limit = limit


class NotInViewError(LocalProtocolError):
    """`process` is not a member of the view in which the stamp was to be written."""

    def __init__(self, *, process: str) -> None:
        super().__init__(f"process {process!r} is not in the view: install a view that has it, or write names")
        self.process = process


class BelowBaseError(LocalProtocolError):
    """The stamp knows `count` events of `process`, less than the base that lag coding subtracts."""

    def __init__(self, *, process: str, count: int, base: int) -> None:
        super().__init__(f"the stamp has {process!r}: {count}, below the view's base of {base}")
        self.process = process
        self.count = count
        self.base = base


class DestinationError(LocalProtocolError):
    """`protocol` does not send to the processes that were given; `rule` says which ones it does."""

    def __init__(self, *, protocol: str, rule: str) -> None:
        super().__init__(f"{protocol}: {rule}")
        self.protocol = protocol
        self.rule = rule


class BufferFullError(LocalProtocolError):
    """A buffer that holds at most `limit` is full."""

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(f"{what}: the limit of {limit} is reached")
        self.what = what
        self.limit = limit


class RemoteProtocolError(BeforehandError):
    """A peer broke the rules. Nothing of what it said was taken over."""


class StampDecodeError(RemoteProtocolError):
    """Bytes or text that are not a stamp in canonical form; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a stamp: {reason}")
        self.reason = reason


class ViewMismatchError(RemoteProtocolError):
    """The stamp was written in view `got`, ours is `expected` (both are tags, in hexadecimal)."""

    def __init__(self, *, expected: str, got: str) -> None:
        super().__init__(f"the stamp was written in view {got}, ours is {expected}")
        self.expected = expected
        self.got = got


class UnknownBaseError(RemoteProtocolError):
    """A differential stamp builds on stamp number `base`; we have number `have` (None: nothing)."""

    def __init__(self, *, base: int, have: int | None) -> None:
        super().__init__(f"the stamp builds on stamp {base}, we have {have}: ask the sender for a full one")
        self.base = base
        self.have = have


class ImpossibleStampError(RemoteProtocolError):
    """The stamp claims `claimed` events of `process`, which made only `made`."""

    def __init__(self, *, process: str, claimed: int, made: int) -> None:
        super().__init__(
            f"the stamp claims {claimed} events of {process!r}, which has made {made}: "
            "the stamp is forged, or this process restarted without its clock"
        )
        self.process = process
        self.claimed = claimed
        self.made = made


class FutureStampError(RemoteProtocolError):
    """The stamp lies `ahead` units ahead of our clock; at most `limit` are allowed."""

    def __init__(self, *, ahead: int, limit: int, unit: str) -> None:
        super().__init__(f"the stamp is {ahead} {unit} ahead of this clock (limit {limit} {unit})")
        self.ahead = ahead
        self.limit = limit
        self.unit = unit


class DuplicateMessageError(RemoteProtocolError):
    """Message number `sequence` from `sender` was received before."""

    def __init__(self, *, sender: str, sequence: int) -> None:
        super().__init__(f"message {sequence} from {sender!r} was received before")
        self.sender = sender
        self.sequence = sequence


class NonParticipantError(RemoteProtocolError):
    """`peer` sent a message without a stamp and the policy is to refuse such messages."""

    def __init__(self, *, peer: str) -> None:
        super().__init__(f"{peer!r} sent no stamp: its causes would be lost (policy: refuse)")
        self.peer = peer


class StampTooLargeError(BeforehandError):
    """A stamp of `size` bytes, above `limit`. It is refused whole: half a stamp is a wrong stamp."""

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(f"the stamp takes {size} bytes, the limit is {limit}: raise it, or use a view")
        self.size = size
        self.limit = limit


class DeliveryTimeoutError(BeforehandError, TimeoutError):
    """The message was still waiting for `missing` (process, count) at its deadline; it was not delivered."""

    def __init__(self, *, missing: tuple[str, int]) -> None:
        super().__init__(f"not deliverable in time: event {missing[0]}:{missing[1]} is not known here yet")
        self.missing = missing


class InputError(BeforehandError):
    """Input that cannot be used. The text is one line: what, where, what to do."""


class PredicateError(InputError):
    """A `where` expression that cannot be read or evaluated; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} (at character {position + 1})")
        self.position = position


class UnknownEventError(InputError):
    """The history has no event `event`."""

    def __init__(self, event: str, hint: str = "") -> None:
        super().__init__(f"no event {event!r} in this history{hint}")
        self.event = event


class BrokerError(BeforehandError):
    """A broker that cannot be reached or used. The text is one line: what, where, what to do.

    With `may_have_happened`, what was asked for may have been done: the answer was lost.
    """

    def __init__(self, message: str, *, may_have_happened: bool = False) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


class InvariantError(BeforehandError):
    """A property that we promise does not hold: a bug of ours. Stop."""
