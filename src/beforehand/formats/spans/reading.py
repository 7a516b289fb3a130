"""What the readers of all formats do alike: files to documents, documents to items, items to records.

A format says where the records of a document stand (`items`) and what each becomes (`make`). Then here:

1. Each item gives its records or one rejection; one bad element of a list costs that element only.
2. What a record loses, because a field has the wrong type, is one rejection `odd-field` each, after the record.
3. At the end of each file come its notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn, TypeAlias

from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError
from beforehand.formats.opening import Limits
from beforehand.formats.sources import Source, Sources
from beforehand.formats.spans.documents import Document, Tolerated, read_documents, rejection
from beforehand.formats.spans.peeking import Peeked
from beforehand.formats.spans.records import LogRecord, Parsed, Span

__all__ = ["Item", "Items", "read_all", "records_of", "refuse"]


class Item(NamedTuple):
    """What stands for one record in a document: its value, to be quoted, and what makes records of it."""

    value: Json
    make: Callable[[], Iterable[Span | LogRecord]]  # Raises `RefusedError`.


Items: TypeAlias = Callable[[Json, Tolerated], Iterable[Item]]
"""Finds the items of a document's value. Never raises: what is refused is an item that raises."""


def read_all(
    source: Source,
    items: Items,
    details: dict[str, str],
    *,
    file: str | None,
    limits: Limits,
    document_bytes_max: int,
    binary: Callable[[Peeked, str | None, Tolerated], Iterator[Span | LogRecord | Rejection] | None] | None = None,
) -> Iterator[Parsed]:
    """All that the files of a source hold. `InputError` at once if one of them cannot be opened.

    `details` says what each note means. `binary` reads a stream that is not JSON, and is None for one that is.
    """
    sources = Sources(source, file=file, limits=limits)

    def read() -> Iterator[Parsed]:
        for name, opening in sources.opened():
            tolerated = Tolerated(details)
            with opening as stream:
                peeked = Peeked(stream)
                found = None if binary is None else binary(peeked, name, tolerated)
                if found is None:
                    documents = read_documents(
                        peeked, file=name, limits=limits, document_bytes_max=document_bytes_max, tolerated=tolerated
                    )
                    found = records_of(documents, items, file=name, limits=limits, tolerated=tolerated)
                yield from found
            yield from tolerated.notes(name)

    return read()


def records_of(
    documents: Iterable[Document | Rejection],
    items: Items,
    *,
    file: str | None,
    limits: Limits,
    tolerated: Tolerated,
) -> Iterator[Span | LogRecord | Rejection]:
    """The records of documents, and what was refused."""
    for document in documents:
        if isinstance(document, Rejection):
            yield document
            continue
        value, offset, line = document
        for item in items(value, tolerated):
            tolerated.quoted = item.value
            try:
                yield from item.make()
            except RefusedError as refused:
                yield rejection(refused, file, limits, offset=offset, line=line, quoted=item.value)
            for lost, quoted in tolerated.lost():
                yield rejection(lost, file, limits, offset=offset, line=line, quoted=quoted)
        for lost, quoted in tolerated.lost():  # After the last item, or without any.
            yield rejection(lost, file, limits, offset=offset, line=line, quoted=quoted)


def refuse(refused: RefusedError) -> NoReturn:
    """What an item does that is refused whatever it holds."""
    raise refused
