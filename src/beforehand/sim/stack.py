"""From a scenario to the stack of layers that each of its processes runs."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from beforehand.clocks import View
from beforehand.errors import BeforehandError, InputError
from beforehand.ordering import PROTOCOLS, DeliveryProtocol, Membership, ReliableLink, Traits
from beforehand.sim.scenario import MILLISECOND, Scenario

__all__ = ["stack_of", "traits_of"]


def traits_of(scenario: Scenario) -> Traits:
    """The traits of the scenario's protocol; InputError if there is no such protocol."""
    traits: Traits = _class_of(scenario).traits
    return traits


def stack_of(scenario: Scenario) -> Callable[[str, View], DeliveryProtocol]:
    """What builds the protocol of one process, with the layers that the scenario asks for."""
    protocol = _class_of(scenario)
    options = dict(scenario.options)
    _refuse_bad_options(protocol, scenario)
    if scenario.membership and not protocol.traits.views:
        raise InputError(
            f"{scenario.protocol} has no views: its members stay; leave `membership` out of the scenario"
        )

    longest = scenario.delay.longest

    def bare(name: str, view: View, number: int = 0) -> DeliveryProtocol:
        made: DeliveryProtocol = protocol(name, view, number=number, **options)
        return made

    def make(name: str, view: View) -> DeliveryProtocol:
        if scenario.membership and name in scenario.newcomers:
            made: DeliveryProtocol = Membership.joining(name, bare, notice_interval=5 * longest)
        elif scenario.membership:
            made = Membership(name, view, bare, notice_interval=5 * longest)
        else:
            made = bare(name, view)
        if not scenario.link:
            return made
        return ReliableLink(
            made,
            resend_after=4 * longest,
            resend_max=max(64 * longest, 100 * MILLISECOND),
        )

    return make


def _refuse_bad_options(protocol: Any, scenario: Scenario) -> None:
    """Raise InputError if the protocol does not take the scenario's options."""
    parameters = [
        p for p in signature(protocol).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "number"
    ]
    offered = ", ".join(p.name for p in parameters)
    options = dict(scenario.options)
    for name in options:
        if name not in {p.name for p in parameters}:
            raise InputError(f"{scenario.protocol} has no option {name!r}; it has: {offered}")
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in options:
            raise InputError(f"{scenario.protocol} needs the option {parameter.name!r}")
        whole = parameter.annotation in ("int", int)
        if whole and type(options.get(parameter.name, 0)) is not int:
            raise InputError(f"{scenario.protocol} does not take these options: {parameter.name} is a whole number")
    try:
        protocol(scenario.processes[0], View(scenario.processes), **options)
    except (TypeError, ValueError, BeforehandError) as error:
        raise InputError(f"{scenario.protocol} does not take these options: {error}") from None


def _class_of(scenario: Scenario) -> Any:
    try:
        return PROTOCOLS[scenario.protocol]
    except KeyError:
        known = ", ".join(PROTOCOLS)
        raise InputError(f"there is no protocol {scenario.protocol!r}; there are: {known}") from None
