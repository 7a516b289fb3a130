"""Subscriptions: who wants to hear of which events, with what led to them, and how it reaches them."""

from beforehand.service.subscriptions.addresses import checked_addresses, parse_target
from beforehand.service.subscriptions.bell import Bell
from beforehand.service.subscriptions.delivering import Deliverer, DeliverySettings
from beforehand.service.subscriptions.following import Following, Notice, Page
from beforehand.service.subscriptions.interests import COMPLETENESS, PAST_MAX, Interest
from beforehand.service.subscriptions.posting import signature_of
from beforehand.service.subscriptions.registered import SUBSCRIPTIONS_MAX, Subscription, Subscriptions

__all__ = [
    "COMPLETENESS",
    "PAST_MAX",
    "SUBSCRIPTIONS_MAX",
    "Bell",
    "Deliverer",
    "DeliverySettings",
    "Following",
    "Interest",
    "Notice",
    "Page",
    "Subscription",
    "Subscriptions",
    "checked_addresses",
    "parse_target",
    "signature_of",
]
