"""The example of a file that only the holder of a token may change (002, problem 12.1)."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from test_group import addresses, until

from beforehand.errors import LocalProtocolError, NotInViewError

EXAMPLE = Path(__file__).parents[2] / "examples" / "replicated_file.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("replicated_file", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_in_causal_order_all_copies_get_all_updates_in_one_order(tmp_path: Path) -> None:
    copies = asyncio.run(example().go_round(tmp_path))
    lines = [f"line {number} by {('ada', 'bob', 'cy')[number % 3]}" for number in range(9)]
    assert copies == {"ada": lines, "bob": lines, "cy": lines}


def test_in_fifo_order_a_copy_differs_when_a_link_is_slow(tmp_path: Path) -> None:
    copies = asyncio.run(example().go_round(tmp_path, order="fifo", delay_s=0.5))
    assert copies["ada"] == copies["bob"]
    assert copies["cy"] != copies["ada"]
    assert sorted(copies["cy"]) == sorted(copies["ada"])


def test_only_the_holder_changes_the_file_and_there_is_one_holder(tmp_path: Path) -> None:
    async def run() -> None:
        file, peers = example().ReplicatedFile, addresses(("a", "b"))
        async with (
            file("a", peers, tmp_path / "a", first="a") as a,
            file("b", peers, tmp_path / "b", first="a") as b,
        ):
            with pytest.raises(LocalProtocolError, match="b does not hold the token"):
                await b.append("x")
            with pytest.raises(NotInViewError):
                await a.pass_token("z")
            assert a.holds_token
            await a.append("one")
            await a.pass_token("b")
            assert not a.holds_token
            with pytest.raises(LocalProtocolError, match="a does not hold the token"):
                await a.pass_token("b")
            await b.token()
            assert b.read() == ["one"]
            await b.append("two")
            await until(lambda: a.read() == ["one", "two"])

    asyncio.run(run())
