"""The file of a member: what is damaged or cannot be written is said in one line, and nothing stays open."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from beforehand.errors import InputError, RemoteProtocolError
from beforehand.runtime.group import Group
from beforehand.runtime.group_store import SEND, GroupStore, read_journal
from beforehand.runtime.transports.base import Identity
from free_ports import free_addresses


def opened(path: Path) -> GroupStore:
    return GroupStore(path, group="group", process="a", order="fifo")


def test_a_file_that_lost_a_table_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    opened(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE delivered")
    with (
        closing(opened(path)) as store,
        pytest.raises(InputError, match=r"a\.db: not the state of a member, or damaged"),
    ):
        store.load()


def test_a_member_that_cannot_take_up_its_state_lets_go_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(opened(path)) as store:
        store.commit(b"\xc1", [], worked_off=None)

    async def run() -> None:
        with pytest.raises(InputError, match="not a snapshot of this version"):
            await Group("a", free_addresses(("a",)), order="fifo", state=path).open()

    asyncio.run(run())
    opened(path).close()  # Nobody holds it.


def test_a_newcomer_that_cannot_be_written_down_is_refused_for_now(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(opened(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store._database.execute("PRAGMA busy_timeout = 0")
        me = Identity(group="group", process="a", incarnation="i", peers={}, remember=store.remember)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RemoteProtocolError, match=r"'b' cannot be let in now: .*a\.db: cannot be written"):
            me.check_incarnation("b", "first")
        other.execute("ROLLBACK")
        me.check_incarnation("b", "first")
        with pytest.raises(RemoteProtocolError, match="came back without its state"):
            me.check_incarnation("b", "second")


def test_a_journal_is_read_whatever_its_file_is_called(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20.db"
    with closing(opened(path)) as store:
        store.commit(None, [], worked_off=None, journal=[(1, SEND, "a.1")])
    assert [event.name for event in read_journal(path)] == ["send a.1"]
