"""Lines of standard input: whole, bounded, and a clear line where there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beforehand.cli import standard_input
from beforehand.errors import InputError


def _lines(path: Path) -> list[bytes]:
    async def gathered() -> list[bytes]:
        with path.open("rb") as source:
            return [line async for line in standard_input.lines_of(source)]

    return asyncio.run(gathered())


def test_lines_come_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo\r\n\nlast")
    assert _lines(tmp_path / "in") == [b"one", b"two", b"", b"last"]


@pytest.mark.parametrize("end", [b"\n", b"", b"\nmore\n"])
def test_a_line_is_too_long_whatever_pieces_it_comes_in(
    end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standard_input, "_LINE_MAX", 10)
    (tmp_path / "in").write_bytes(b"0123456789\n0123456789a" + end)
    with pytest.raises(InputError, match="line 2 is longer than 10 bytes: cut it"):
        _lines(tmp_path / "in")


def test_a_closed_standard_input_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        standard_input.standard_input()
