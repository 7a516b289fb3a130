"""What a subscriber wants to hear of: a predicate, how much of the past comes with it, and when.

Two times are worth a notice, and each event has each of them once, whatever order its reports come in:

    immediate  its report was stored. What of its past is missing then is named.
    complete   it got its stamp: all that it depends on is here, or the deadline gave up what is not, which is named
               (Berry 1995, 3.1 and 3.4.2: the observer delays the report of an effect until its causes are here).

So a place in the journal says all about what a subscriber has had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.predicate import Predicate
from beforehand.service.schema import ARRIVED, PLACED

__all__ = ["COMPLETENESS", "PAST_MAX", "Interest"]

PAST_MAX: Final = 1_000
"""Events of the past that a notice has at most."""

COMPLETENESS: Final = ("complete", "immediate")

_TEXT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """It validates itself: `InputError` (`PredicateError` for the predicate) says what is wrong."""

    where: str | None = None  # A predicate; None: every event.
    past: int = 25
    completeness: str = "complete"
    execution: str | None = None  # Only events of this execution; it need not exist yet.
    _parsed: Predicate | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.completeness not in COMPLETENESS:
            raise InputError(f"completeness {self.completeness[:40]!r}: choose {' or '.join(COMPLETENESS)}")
        if not 0 <= self.past <= PAST_MAX:
            raise InputError(f"past={self.past}: ask for 0 to {PAST_MAX} events")
        if self.execution is not None and len(self.execution) > _TEXT_MAX:
            raise InputError(f"an execution of {len(self.execution)} characters: none has such a name")
        _ = self.predicate

    @classmethod
    def stored(cls, where: str | None, past: int, completeness: str, execution: str | None) -> Interest:
        """One that was valid when it was stored. Its predicate is parsed when it is used: that may take a while."""
        made = object.__new__(cls)
        values = (("where", where), ("past", past), ("completeness", completeness), ("execution", execution))
        for name, value in (*values, ("_parsed", None)):
            object.__setattr__(made, name, value)
        return made

    @property
    def predicate(self) -> Predicate | None:
        """`where`, parsed."""
        if self._parsed is None and self.where is not None:
            object.__setattr__(self, "_parsed", Predicate.parse(self.where))
        return self._parsed

    @property
    def moment(self) -> int:
        """What the journal says of an event when it is worth a notice."""
        return ARRIVED if self.completeness == "immediate" else PLACED

    def wants(self, event: Event) -> bool:
        """Whether the event is meant. `PredicateError` if that cannot be told within the limits of patterns."""
        if self.execution is not None and event.execution != self.execution:
            return False
        predicate = self.predicate
        return predicate is None or predicate(event)
