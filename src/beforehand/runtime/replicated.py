"""Replicated state: every member applies the same operations in the same order (Garg, Concurrent and Distributed
Computing in Java, 12.3.4).

Guarantees, if `apply` depends on nothing but the state and the operation:
  1. All members that have applied the same number of operations are in the same state.
  2. `execute` returns what the operation gave at its place in the order, here.
  3. What `execute` has returned from is never lost, and nor is anything that its result shows: all members of the
     view have got the operation and all before it, in their places. So it outlives the eviction of any of them, this
     one too; and with `state` the kill of all of them.
  4. With `state`, a member that is killed and started again has its last checkpoint, applies what was delivered since
     once more, and then what it missed: it catches up by itself.
  5. One that joins (`join=True`, and `group.admit` at a member) begins with the state that the members had when they
     took it in, and applies all that follows.

Needs a total order. What is read without `execute` is this member's own state, which may lag behind the others'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, Self

import msgspec

from beforehand.errors import InputError
from beforehand.ordering import PROTOCOLS, Message
from beforehand.ordering.protocol import Destinations
from beforehand.runtime.group import Group

__all__ = ["Machine", "ReplicatedMap", "ReplicatedStateMachine"]

CHECKPOINT_EVERY: Final = 1_000


class Machine(Protocol):
    """What is replicated. Its methods must not wait and must depend on nothing else."""

    def apply(self, operation: bytes) -> Any:
        """Do it, and give the result. If it raises, every member stops here: refuse bad operations by a result."""

    def snapshot(self) -> bytes:
        """The whole state."""

    def restore(self, snapshot: bytes) -> None:
        """Take up a state."""


class ReplicatedStateMachine:
    """One member's copy of a machine."""

    def __init__(
        self,
        me: str,
        peers: Mapping[str, str],
        machine: Machine,
        *,
        order: str = "single-phase",
        checkpoint_every: int = CHECKPOINT_EVERY,
        stable: bool = True,
        **options: Any,
    ) -> None:
        """`options` are those of `Group`: `transport`, `name`, `state`, `limits`, ...

        Without `stable`, `execute` does not wait for the other members, and 3 does not hold.
        """
        traits = PROTOCOLS[order].traits if order in PROTOCOLS else None
        if traits is not None and (not traits.total or traits.destinations is Destinations.ONE):
            raise InputError(f"{order} gives no total order of messages to all: replicas would differ")
        if stable and traits is not None and not traits.views:
            raise InputError(f"{order} has no views, so it does not know what is stable: pass stable=False")
        if checkpoint_every < 1:
            raise InputError("a checkpoint is made after one operation or more")
        self.machine: Final = machine
        self.applied = 0  # Operations applied since this member was started.
        self._every: Final = checkpoint_every
        self._stable: Final = stable
        self.group: Final = Group(
            me,
            peers,
            order=order,
            handler=self._apply,
            restored=machine.restore,
            snapshot=machine.snapshot,
            **options,
        )

    async def __aenter__(self) -> Self:
        await self.group.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.group.close()

    async def execute(self, operation: bytes) -> Any:
        """Have all members apply an operation; what it gave here, in its place, when all have got it in its place.

        If it raises, the operation may be applied all the same, or not: nobody was told that it was.
        """
        return await self.group.execute(operation, stable=self._stable)

    async def _apply(self, message: Message) -> Any:
        if self.applied and self.applied % self._every == 0:
            self.group.checkpoint(self.machine.snapshot())  # Before this one: that is what `checkpoint` means.
        self.applied += 1
        return self.machine.apply(message.payload)


class ReplicatedMap(Mapping[str, bytes]):
    """A map of texts to bytes that all members share. Reading is local; `read` asks in the common order."""

    def __init__(self, me: str, peers: Mapping[str, str], **options: Any) -> None:
        """`options` are those of `ReplicatedStateMachine`."""
        self._entries: Final = _Entries()
        self._replicated: Final = ReplicatedStateMachine(me, peers, self._entries, **options)

    @property
    def group(self) -> Group:
        return self._replicated.group

    async def __aenter__(self) -> Self:
        await self._replicated.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._replicated.__aexit__()

    async def set(self, key: str, value: bytes) -> None:
        """Set an entry, for all; returns when it is set for good."""
        await self._execute("set", key, value)

    async def delete(self, key: str) -> bool:
        """Remove an entry, for all; whether there was one."""
        return bool(await self._execute("delete", key))

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes) -> bool:
        """Set an entry if it is still `expected` (None: if there is none); whether it was."""
        return bool(await self._execute("compare", key, expected, value))

    async def read(self, key: str) -> bytes | None:
        """The entry at this moment of the common order: no older one than anybody was told of by a call here."""
        found: bytes | None = await self._execute("read", key)
        return found

    async def _execute(self, *operation: object) -> Any:
        return await self._replicated.execute(msgspec.msgpack.encode(operation))

    def __getitem__(self, key: str) -> bytes:
        return self._entries.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.held)

    def __len__(self) -> int:
        return len(self._entries.held)


class _Entries:
    """The machine of `ReplicatedMap`. What is no operation changes nothing, the same at every member."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def apply(self, operation: bytes) -> Any:
        try:
            said = msgspec.msgpack.decode(operation)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8.
            return None
        match said:
            case ["set", str() as key, bytes() as value]:
                self.held[key] = value
            case ["delete", str() as key]:
                return self.held.pop(key, None) is not None
            case ["compare", str() as key, bytes() | None as expected, bytes() as value]:
                if self.held.get(key) != expected:
                    return False
                self.held[key] = value
                return True
            case ["read", str() as key]:
                return self.held.get(key)
        return None

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.held)

    def restore(self, snapshot: bytes) -> None:
        self.held = msgspec.msgpack.decode(snapshot, type=dict[str, bytes])
