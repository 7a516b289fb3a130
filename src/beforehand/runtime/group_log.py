"""What a group tells the log, beside its transport: texts for people, and fields for machines."""

from __future__ import annotations

import logging
from typing import Final

from beforehand.clocks.view import View
from beforehand.ordering.effects import Discard, Refused
from beforehand.ordering.message import Message
from beforehand.runtime.log_fields import Known, LogFields
from beforehand.runtime.state_packets import Turn

__all__ = ["GroupLog"]

log: Final = logging.getLogger("beforehand.runtime")


class GroupLog:
    """Of one member."""

    def __init__(self, group: str, member: str) -> None:
        self._member: Final = member
        self._log_fields: Final = LogFields(group, member)

    def handler_failed(self, at: Message | Turn, error: Exception) -> str:
        """To be called where it was caught. Says at what."""
        known = Known(view=at.view.number) if isinstance(at, Turn) else Known(message_id=at.id)
        known["reason"] = repr(error)
        where = f"the start of view {at.view.number}" if isinstance(at, Turn) else f"message {at.id}"
        extra = self._log_fields("handler-failed", **known)
        log.exception("%s: the handler failed at %s", self._member, where, extra=extra)
        return where

    def set_aside(self, effect: Discard) -> None:
        message, reason = effect.message.id, effect.reason.value
        extra = self._log_fields("message-set-aside", message_id=message, reason=reason)
        log.warning("%s: %s was not delivered: %s", self._member, message, reason, extra=extra)

    def refused(self, effect: Refused) -> None:
        peer, why = effect.process, effect.why
        extra = self._log_fields("peer-refused", peer=peer, reason=why)
        log.info("%s: something of %s was refused: %s", self._member, peer, why, extra=extra)

    def installed(self, view: View) -> None:
        extra = self._log_fields("view-installed", view=view.number, members=view.processes)
        log.info("%s: view %d: %s", self._member, view.number, " ".join(view.processes), extra=extra)
