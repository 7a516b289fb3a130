"""Who was ever a member, who is, where it can be found: what a group must know before it takes in another.

*A name is used once in the life of a group.* One that was evicted or has left comes back under another name: as a
process of its own, with links, messages and numbers of its own. So nothing that is still under way from an earlier
life, or that somebody remembers of it, can be taken for its own. The names are a part of the views' record: all
members of a view agree on them, for each view adds those who left it, and a newcomer gets them with its `Welcome`.

Bounded: at most NAMES_MAX names in the life of a group, `admit` refuses more; a contact has CONTACT_LENGTH_MAX
letters at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from beforehand.clocks.view import View
from beforehand.errors import LocalProtocolError, RemoteProtocolError
from beforehand.ordering.flush import CONTACT_LENGTH_MAX, Contacts, Welcome, is_contacts

__all__ = ["NAMES_MAX", "Roster", "RosterSnapshot"]

NAMES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RosterSnapshot:
    past: tuple[str, ...]
    contacts: Contacts


class Roster:
    """What one process knows of them."""

    def __init__(self, contacts: Mapping[str, str] | None = None) -> None:
        self.past: set[str] = set()  # Names of those who were members and are not; with the view at most NAMES_MAX.
        self.contacts: dict[str, str] = {}  # Of members: where each is found, as its admission said. Opaque here.
        for name, contact in (contacts or {}).items():
            self._refuse_contact(name, contact)
            self.contacts[name] = contact

    def wishes(self, processes: Mapping[str, str] | Iterable[str], view: View) -> dict[str, str]:
        """Whom the operator wants to admit, by name, with their contacts; LocalProtocolError if they cannot be."""
        named = dict(processes) if isinstance(processes, Mapping) else dict.fromkeys(processes, "")
        for name, contact in named.items():
            if type(name) is not str or not name:
                raise LocalProtocolError("a member needs a name")
            if name in view:
                raise LocalProtocolError(f"{name!r} is a member already")
            if name in self.past:
                raise LocalProtocolError(
                    f"{name!r} was a member before, and a name is used once: let it come back under a new one, "
                    f"such as {self._another(name, view)!r}"
                )
            self._refuse_contact(name, contact)
        if len(self.past) + len(view.processes) + len(named) > NAMES_MAX:
            raise LocalProtocolError(f"this group has had its {NAMES_MAX} names: start a new one")
        return named

    def refuse_strange_newcomers(self, joining: Contacts, view: View, *, sender: str) -> None:
        """What a peer says of newcomers must be what `wishes` lets through."""
        for name, _ in joining:
            if name in view or name in self.past:
                raise RemoteProtocolError(f"{sender!r} admits {name!r}, which is or was a member")
        if len(self.past) + len(view.processes) + len(joining) > NAMES_MAX:
            raise RemoteProtocolError(f"{sender!r} admits more than this group has names for")

    def knows(self, name: str, view: View) -> bool:
        """Whether it is or was a member."""
        return name in view or name in self.past

    def turn(self, before: View, after: View, joining: Contacts) -> None:
        """The next view is here."""
        self.past |= set(before.processes) - set(after.processes)
        self.contacts.update((name, contact) for name, contact in joining if contact)
        self.contacts = {name: self.contacts[name] for name in after.processes if name in self.contacts}

    def welcome(self, view: View) -> Welcome:
        """What a newcomer must know."""
        contacts = tuple((name, self.contacts.get(name, "")) for name in view.processes)
        return Welcome(view=view.number, members=contacts, past=tuple(sorted(self.past)))

    def take(self, welcome: Welcome) -> None:
        self.past = set(welcome.past)
        self.contacts = {name: contact for name, contact in welcome.members if contact}

    def snapshot(self) -> RosterSnapshot:
        return RosterSnapshot(tuple(sorted(self.past)), tuple(sorted(self.contacts.items())))

    def restore(self, snapshot: RosterSnapshot) -> None:
        self.past, self.contacts = set(snapshot.past), dict(snapshot.contacts)

    def _another(self, name: str, view: View) -> str:
        stem, life = name.partition(".")[0], 2
        while f"{stem}.{life}" in self.past or f"{stem}.{life}" in view:
            life += 1
        return f"{stem}.{life}"

    def _refuse_contact(self, name: str, contact: str) -> None:
        if not is_contacts(((name, contact),)):
            raise LocalProtocolError(f"the contact of {name!r} is no text of at most {CONTACT_LENGTH_MAX} letters")
