"""All protocols by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from beforehand.ordering.causal_broadcast import CausalBroadcast
from beforehand.ordering.causal_merge import CausalMerge
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.coordinator import Coordinator
from beforehand.ordering.fifo import Fifo
from beforehand.ordering.group_leaders import GroupLeaders
from beforehand.ordering.independent_sends import IndependentSends
from beforehand.ordering.lamport_total import LamportTotal
from beforehand.ordering.rendezvous import Rendezvous
from beforehand.ordering.rotating_token import RotatingToken
from beforehand.ordering.schiper_causal import SchiperCausal
from beforehand.ordering.single_phase import SinglePhase
from beforehand.ordering.skeen import Skeen
from beforehand.ordering.timed_delivery import TimedDelivery
from beforehand.ordering.unordered import Unordered

__all__ = ["PROTOCOLS"]

# Any: each takes options of its own beside (process, view).
_ALL: Final[tuple[Any, ...]] = (
    Unordered,
    Fifo,
    CausalUnicast,
    CausalBroadcast,
    SchiperCausal,
    IndependentSends,
    GroupLeaders,
    Rendezvous,
    Skeen,
    Coordinator,
    RotatingToken,
    LamportTotal,
    SinglePhase,
    TimedDelivery,
    CausalMerge,
)

PROTOCOLS: Final[Mapping[str, Any]] = {protocol.traits.name: protocol for protocol in _ALL}
"""Name to class, from the weakest guarantee to the strongest."""
