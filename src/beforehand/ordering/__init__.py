"""Delivery protocols: state machines without I/O that decide when a message may be delivered, one per file.

| protocol           | guarantee    | to   | cost per message                                  |
|--------------------|--------------|------|---------------------------------------------------|
| `Unordered`        | none         | some | one packet per destination                        |
| `Fifo`             | FIFO         | some | the same and a number                             |
| `CausalUnicast`    | causal       | some | the same and n² numbers                           |
| `CausalBroadcast`  | causal       | all  | the same and n numbers                            |
| `SchiperCausal`    | causal       | some | up to n², in practice those who are talked to     |
| `IndependentSends` | declared     | some | the dependencies that the application names       |
| `GroupLeaders`     | causal       | some | k² numbers in a group, g² between the leaders     |
| `Rendezvous`       | synchronous  | one  | two or three packets; the sender waits            |
| `Skeen`            | total        | some | three packets per destination                     |
| `Coordinator`      | causal total | some | one packet more; everything goes through one      |
| `RotatingToken`    | causal total | some | a token that goes round                           |
| `LamportTotal`     | causal total | some | n − 1 acknowledgements to everybody               |
| `SinglePhase`      | causal total | all  | none to n − 1 acknowledgements, fewer under load  |
| `TimedDelivery`    | causal total | some | no packet more; a known delay and clocks          |
| `CausalMerge`      | causal total | some | the same, and bounded stamps; mends itself        |

`ReliableLink` carries any of them over a network that loses, repeats and reorders; `Membership` lets members leave
and be evicted. `merging` has what all mergers share: `CausalMerge`, the live merger, the one on Spark. `effects` has
the contract of what a protocol asks for. This room imports the standard library only.
"""

from beforehand.ordering.causal_broadcast import CausalBroadcast
from beforehand.ordering.causal_merge import CausalMerge
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.coordinator import Coordinator
from beforehand.ordering.effects import (
    Deliver,
    Discard,
    Effect,
    Installed,
    Persist,
    Place,
    Reason,
    Refused,
    Sent,
    SetTimer,
    Transmit,
)
from beforehand.ordering.fifo import Fifo
from beforehand.ordering.group_leaders import GroupLeaders
from beforehand.ordering.independent_sends import IndependentSends
from beforehand.ordering.lamport_total import LamportTotal
from beforehand.ordering.membership import Membership
from beforehand.ordering.merging import (
    WAITING_MAX,
    MergeBuffer,
    MergeRules,
    MergeSettings,
    MergeStamp,
    Published,
    Released,
    SetAside,
)
from beforehand.ordering.message import Level, Message
from beforehand.ordering.protocol import (
    Channels,
    DeliveryProtocol,
    Destinations,
    Held,
    Missing,
    Owed,
    Pending,
    Report,
    Traits,
)
from beforehand.ordering.registry import PROTOCOLS
from beforehand.ordering.reliable_link import Frame, ReliableLink
from beforehand.ordering.rendezvous import Rendezvous
from beforehand.ordering.rotating_token import RotatingToken
from beforehand.ordering.schiper_causal import SchiperCausal
from beforehand.ordering.single_phase import Acknowledge, Identifiers, SinglePhase
from beforehand.ordering.skeen import Skeen
from beforehand.ordering.timed_delivery import TimedDelivery
from beforehand.ordering.unordered import Unordered

__all__ = [
    "PROTOCOLS",
    "WAITING_MAX",
    "Acknowledge",
    "CausalBroadcast",
    "CausalMerge",
    "CausalUnicast",
    "Channels",
    "Coordinator",
    "Deliver",
    "DeliveryProtocol",
    "Destinations",
    "Discard",
    "Effect",
    "Fifo",
    "Frame",
    "GroupLeaders",
    "Held",
    "Identifiers",
    "IndependentSends",
    "Installed",
    "LamportTotal",
    "Level",
    "Membership",
    "MergeBuffer",
    "MergeRules",
    "MergeSettings",
    "MergeStamp",
    "Message",
    "Missing",
    "Owed",
    "Pending",
    "Persist",
    "Place",
    "Published",
    "Reason",
    "Refused",
    "Released",
    "ReliableLink",
    "Rendezvous",
    "Report",
    "RotatingToken",
    "SchiperCausal",
    "Sent",
    "SetAside",
    "SetTimer",
    "SinglePhase",
    "Skeen",
    "TimedDelivery",
    "Traits",
    "Transmit",
    "Unordered",
]
