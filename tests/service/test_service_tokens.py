"""Tokens, the audit log and the queues of work, by themselves."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from pathlib import Path

import pytest

from beforehand.errors import InputError
from beforehand.service.audit import KEPT_MAX, Audit
from beforehand.service.deadlines import OverdueError, check
from beforehand.service.http.limits import Limits
from beforehand.service.tokens import Tokens, access_path
from beforehand.service.work import BusyError, Work


def test_a_token_holds_until_it_is_revoked(tmp_path: Path) -> None:
    with closing(Tokens(tmp_path / "access")) as tokens:
        made, text = tokens.add("cart", "report")

        assert tokens.check(text) == made
        assert made.allows("report")
        assert not made.allows("read")
        tokens.revoke(made.id)
        assert tokens.check(text) is None
        assert tokens.ever
        assert not tokens.active


def test_admin_may_do_all(tmp_path: Path) -> None:
    with closing(Tokens(tmp_path / "access")) as tokens:
        made, _ = tokens.add("boss", "admin")

        assert made.allows("report")
        assert made.allows("read")
        assert made.allows("admin")


def test_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    with closing(Tokens(tmp_path / "access")) as tokens:
        made, text = tokens.add("cart", "read")

    with closing(Tokens(tmp_path / "access")) as tokens:
        found = tokens.check(text)
        assert found is not None
        assert (found.id, found.scope, found.name) == (made.id, "read", "cart")


def test_another_process_is_heard_at_the_next_refresh(tmp_path: Path) -> None:
    with closing(Tokens(tmp_path / "access")) as service, closing(Tokens(tmp_path / "access")) as command:
        made, text = command.add("cart", "read")

        assert service.check(text) is None
        service.refresh()
        assert service.check(text) == made
        command.revoke(made.id)
        service.refresh()
        assert service.check(text) is None


@pytest.mark.parametrize(
    "text", ["", "bh", "bh__", "bh_{id}_", "bh_{id}_zz", "xx_{id}_{secret}", "bh_{id}_{secret}00"]
)
def test_what_is_not_exactly_the_token_does_not_hold(tmp_path: Path, text: str) -> None:
    with closing(Tokens(tmp_path / "access")) as tokens:
        made, whole = tokens.add("cart", "read")
        secret = whole.rpartition("_")[2]

        assert tokens.check(text.format(id=made.id, secret=secret)) is None


def test_when_a_token_was_used_is_kept_to_the_minute(tmp_path: Path) -> None:
    now = [1_000_000_000_000]
    with closing(Tokens(tmp_path / "access", clock=lambda: now[0])) as tokens:
        _, text = tokens.add("cart", "read")
        tokens.check(text)
        tokens.refresh()
        assert tokens.list()[0].used == 1_000_000_000_000
        now[0] += 30_000_000_000
        tokens.check(text)
        tokens.refresh()
        assert tokens.list()[0].used == 1_000_000_000_000
        now[0] += 31_000_000_000
        tokens.check(text)
        tokens.refresh()
        assert tokens.list()[0].used == now[0]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "access"
    file.write_bytes(b"no database" * 100)

    with pytest.raises(InputError, match="access"):
        Tokens(file)
    with pytest.raises(InputError, match="directory that is there"):
        Tokens(tmp_path / "nowhere" / "access")


def test_tokens_stand_beside_the_store_or_the_directory(tmp_path: Path) -> None:
    assert access_path("shop.db") == Path("shop.db-access")
    assert access_path(tmp_path / "run") == tmp_path / "run-access"


def test_the_audit_log_keeps_the_newest_entries(tmp_path: Path) -> None:
    with closing(Audit(tmp_path / "access", clock=lambda: 7)) as audit:
        for number in range(30):
            audit.note("me", f"did {number}", "bell\x07\ud800")

        page = audit.entries(limit=20)
        assert page["entries"][0] == {"id": 30, "at": 7, "who": "me", "what": "did 29", "detail": "bell??"}
        assert page["more"]
        rest = audit.entries(limit=20, before=page["cursor"])
        assert [entry["what"] for entry in rest["entries"]] == [f"did {number}" for number in range(9, -1, -1)]
        assert not rest["more"]
    assert KEPT_MAX == 10_000


def test_the_audit_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beforehand.service import audit as module

    monkeypatch.setattr(module, "KEPT_MAX", 5)
    with closing(Audit(tmp_path / "access")) as audit:
        for number in range(12):
            audit.note("me", f"did {number}")

        assert [entry["what"] for entry in audit.entries()["entries"]] == [
            f"did {number}" for number in range(11, 6, -1)
        ]


def test_more_work_than_may_wait_is_refused_and_the_rest_is_done() -> None:
    release, begun = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        release.wait(20)
        return "done"

    async def scene() -> tuple[list[str], str]:
        work = Work(Limits(writes_waiting_max=2))
        tasks = [asyncio.create_task(work.write(slow)) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 20)
        with pytest.raises(BusyError, match="3 reports"):
            await work.write(slow)
        assert await work.read(lambda: "read") == "read"  # Readers do not wait for the writer.
        release.set()
        return list(await asyncio.gather(*tasks)), await work.write(lambda: "again")

    assert asyncio.run(scene()) == (["done"] * 3, "again")


def test_writes_take_turns() -> None:
    inside: list[int] = []
    most: list[int] = []

    def write() -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    async def scene() -> None:
        work = Work(Limits())
        await asyncio.gather(*[work.write(write) for _ in range(40)])

    asyncio.run(scene())
    assert max(most) == 1


def test_a_question_has_its_deadline_in_its_thread() -> None:
    async def scene() -> None:
        work = Work(Limits(read_seconds_max=1))

        def endless() -> None:
            while True:
                check()

        with pytest.raises(OverdueError):
            await work.read(endless)

    asyncio.run(scene())
