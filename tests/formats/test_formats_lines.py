"""Lines of a stream, compared with splitting it whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.formats import Line, split_lines


class Pieces:
    """A stream that gives the pieces it was given, then ends, or fails if told to."""

    def __init__(self, pieces: list[bytes], *, failing: bool = False) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self._failing = failing

    def read(self, size: int, /) -> bytes:
        if not self._pieces and self._failing:
            raise InputError("the disk is on fire")
        return self._pieces.pop(0) if self._pieces else b""


@given(st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=8), st.integers(1, 10))
def test_lines_equal_those_of_the_whole(pieces: list[bytes], line_bytes_max: int) -> None:
    whole = b"".join(pieces)

    lines = list(split_lines(Pieces(pieces), line_bytes_max=line_bytes_max))

    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line.data for line in lines] == [data[:line_bytes_max] for data in expected]
    assert [line.length for line in lines] == [len(data) for data in expected]
    assert [line.number for line in lines] == list(range(1, len(expected) + 1))
    assert all(whole[line.offset :].startswith(line.data) for line in lines)


def test_broken_stream_ends_with_the_line_it_broke_in() -> None:
    lines = list(split_lines(Pieces([b"one\ntw"], failing=True), line_bytes_max=100))

    assert lines == [Line(0, b"one", 1, 3), Line(4, b"tw", 2, 2, "the disk is on fire")]
