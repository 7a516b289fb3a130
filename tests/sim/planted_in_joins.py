"""Planted bugs that show when somebody joins. `test_planted_joins` looks for them."""

from __future__ import annotations

from mutants import Bug

GROUPS = ("fifo", "causal-broadcast", "skeen", "coordinator", "lamport-total", "single-phase")

JOINS = (
    Bug(
        "welcome: only the first member sends one",
        "ordering.membership",
        "call.transmit(newcomers, self._roster.welcome(view))",
        "call.transmit(newcomers if view.processes[0] == self.process else (), self._roster.welcome(view))",
        GROUPS,
        "P6: on other links something else comes first, and if the first one stops nobody welcomes it",
    ),
    Bug(
        "welcome: it comes after what is sent in the view",
        "ordering.membership",
        "        call.transmit(newcomers, self._roster.welcome(view))  # Before all else that goes to them: see "
        "`view_change`.\n        self._pass_on(self.within.tick(now=now), call, now)\n"
        "        self._ahead, self._queue = ahead, waiting\n        self._catch_up(call, now)\n",
        "        self._pass_on(self.within.tick(now=now), call, now)\n"
        "        self._ahead, self._queue = ahead, waiting\n        self._catch_up(call, now)\n"
        "        call.transmit(newcomers, self._roster.welcome(view))\n",
        GROUPS,
        "P6: what was sent before it is lost, or never taken",
    ),
    Bug(
        "welcome: to another view",
        "ordering.flush",
        "view = View((name for name, _ in self.members), number=self.view)",
        "view = View((name for name, _ in self.members), number=self.view + 1)",
        GROUPS,
        "P3",
    ),
    Bug(
        "welcome: the members in another order",
        "ordering.roster",
        'contacts = tuple((name, self.contacts.get(name, "")) for name in view.processes)',
        'contacts = tuple((name, self.contacts.get(name, "")) for name in sorted(view.processes, reverse=True))',
        GROUPS,
        "P3: positions mean other processes",
    ),
    Bug(
        "membership: the view without the newcomers",
        "ordering.membership",
        "view = View((*install.members, *newcomers), number=self.view.number + 1)",
        "view = View(install.members, number=self.view.number + 1)",
        GROUPS,
        "P3",
    ),
    Bug(
        "membership: what waits is not for the newcomer",
        "ordering.membership",
        "        if newcomers:\n            waiting =",
        "        if not newcomers:\n            waiting =",
        ("causal-broadcast", "coordinator", "rotating-token"),
        "a message that goes to all members cannot be sent any more",
    ),
    Bug(
        "membership: a snapshot forgets the welcome",
        "ordering.membership",
        "self.welcomed = snapshot.welcomed",
        "self.welcomed = True",
        GROUPS,
        "P6: a newcomer that was restarted before its welcome never takes one",
    ),
    Bug(
        "membership: a wish that another flush passed over is forgotten",
        "ordering.membership",
        "if self._change.wanted or self._change.admitting:",
        "if self._change.wanted:",
        GROUPS,
        "who was to be admitted never is",
    ),
    Bug(
        "view change: a snapshot forgets whom to admit",
        "ordering.view_change",
        "= set(snapshot.accepted_by), dict(snapshot.admitting)",
        "= set(snapshot.accepted_by), {}",
        GROUPS,
        "who was to be admitted never is",
    ),
    Bug(
        "view change: what was accepted is proposed without its newcomers",
        "ordering.view_change",
        "self._proposal = replace(end, ballot=prepare.ballot)",
        "self._proposal = replace(end, ballot=prepare.ballot, joining=())",
        GROUPS,
        "P3: one leader installs them, the next one does not",
    ),
    Bug(
        "view change: what was accepted is proposed with our own newcomers",
        "ordering.view_change",
        "self._proposal = replace(end, ballot=prepare.ballot)",
        "self._proposal = replace(end, ballot=prepare.ballot, joining=prepare.joining)",
        GROUPS,
        "P3: the same",
    ),
    Bug(
        "view change: the install without its newcomers",
        "ordering.view_change",
        "messages=end.messages, joining=end.joining)",
        "messages=end.messages)",
        GROUPS,
        "who was to be admitted never is",
    ),
    Bug(
        "link: no link with newcomers",
        "ordering.reliable_link",
        "                    self._meet(effect.view)\n",
        "",
        GROUPS,
        "P1",
    ),
    Bug(
        "link: links with all begin again at every view",
        "ordering.reliable_link",
        "if name != self.process and name not in self._peers:",
        "if name != self.process:",
        GROUPS,
        "P1, P2",
    ),
    Bug(
        "link: any frame of a member is its first",
        "ordering.reliable_link",
        "        if packet.number != 1 or type(welcome) is not Welcome:",
        "        if type(welcome) is not Welcome:\n            return packet.packet is not None\n        if False:",
        GROUPS,
        "P3: what comes before the welcome is taken, and dropped by the membership",
    ),
)
