"""CSV by a map: rows over several lines, and rows that are none."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats import FieldMap, Limits, Unnumbered
from beforehand.formats.mapped import Mapped

FIELDS = FieldMap(format="csv", process=("p",), name=("msg",))
HEADER = b"p,msg\n"


def read(
    content: bytes, fields: FieldMap = FIELDS, *, limits: Limits | None = None
) -> list[tuple[int, Mapped | Rejection]]:
    return list(fields.read_rows(io.BytesIO(content), file="f", limits=limits or Limits()))


def records(content: bytes, fields: FieldMap = FIELDS) -> list[Mapped | Rejection]:
    return [record for _, record in read(content, fields)]


def test_rows_come_with_the_offset_at_which_they_began() -> None:
    content = HEADER + b'a,"one\ntwo, ""three"""\r\n\nb,four'

    assert read(content) == [
        (6, Unnumbered(process="a", name='one\ntwo, "three"')),
        (31, Unnumbered(process="b", name="four")),
    ]
    assert content[31:] == b"b,four"


def test_columns_may_be_named_by_the_map() -> None:
    fields = FieldMap(
        format="csv", delimiter=";", columns=("t", "p", "x"), process=("p",), time=("t",), time_unit="s"
    )
    assert records(b"\xef\xbb\xbf1.5;a;y\n2;b;\n", fields) == [
        Unnumbered(process="a", time=1_500_000_000, attributes={"x": "y"}),
        Unnumbered(process="b", time=2_000_000_000),
    ]


def test_names_of_columns_are_taken_as_they_are() -> None:
    fields = FieldMap(format="csv", process=("service.name",))
    assert records(b" service.name ,x\na,1\n", fields) == [Unnumbered(process="a", attributes={"x": "1"})]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"a,b,c\n", "the row has 3 field(s), there are 2 columns"),
        (b"a\n", "the row has 1 field(s)"),
        (b'a,"b"c\n', "is not CSV"),
        (b"a,\xff\n", "not CSV in UTF-8"),
        (b"a,b\rc\n", "is not CSV"),
        (b"a," + b"x" * 200_000 + b"\n", "field larger than field limit"),
    ],
)
def test_a_row_that_is_no_row_is_refused_and_the_next_is_read(row: bytes, says: str) -> None:
    [(offset, found), after] = read(HEADER + row + b"z,end\n")

    assert isinstance(found, Rejection)
    assert (found.reason, found.line, found.offset, offset) == ("not-csv", 2, 6, 6)
    assert says in found.detail
    assert after == (6 + len(row), Unnumbered(process="z", name="end"))


def test_a_row_without_a_process_is_refused() -> None:
    [found] = records(HEADER + b",hello\n")
    assert isinstance(found, Rejection)
    assert (found.reason, found.text) == ("not-an-event", ",hello")


def test_a_quote_that_is_never_closed_costs_no_more_than_a_row_may() -> None:
    content = HEADER + b'a,"open\n' + b"b,x\n" * 100
    found = read(content, limits=Limits(line_bytes_max=40))

    reasons = [item.reason for _, item in found if isinstance(item, Rejection)]
    assert reasons == ["line-too-long"]
    assert sum(isinstance(item, Unnumbered) for _, item in found) > 80


def test_a_quote_that_is_open_at_the_end_is_told() -> None:
    [found] = records(HEADER + b'a,"open\nb,x\n')
    assert isinstance(found, Rejection)
    assert (found.reason, found.line) == ("not-csv", 2)


def test_reading_that_stops_is_told_and_what_was_read_stays() -> None:
    class Broken:
        def __init__(self) -> None:
            self._pieces = [HEADER + b"a,x\nb,"]

        def read(self, size: int, /) -> bytes:
            if not self._pieces:
                raise InputError("disk")
            return self._pieces.pop()

    [(_, first), (_, last)] = FIELDS.read_rows(Broken(), file="f")
    assert first == Unnumbered(process="a", name="x")
    assert isinstance(last, Rejection)
    assert last.reason == "unreadable"


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"q,msg\n", 'f: the map reads process from "p", but the header has "q", "msg": correct the map'),
        (b"p,p,msg\n", 'column "p" stands twice in the header'),
    ],
)
def test_a_header_that_does_not_fit_the_map_is_an_error(header: bytes, says: str) -> None:
    with pytest.raises(InputError) as error:
        read(header + b"a,b\n")
    assert says in str(error.value)


def test_an_empty_file_has_no_rows() -> None:
    assert read(b"") == []
    assert read(HEADER) == []


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.text(max_size=9))))
def test_what_the_csv_module_writes_is_read_back(rows: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["p", "msg"])
    writer.writerows(rows)
    found = records(text.getvalue().encode("utf-8", "replace"))

    assert [(item.process, item.name) for item in found if isinstance(item, Unnumbered)] == [
        (process, name.encode("utf-8", "replace").decode()) for process, name in rows
    ]
