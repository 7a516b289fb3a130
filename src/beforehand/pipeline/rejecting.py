"""Rejections as rows of `rejected/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from beforehand.events import Rejection
from beforehand.pipeline.schemas import STAGED_REJECTED

__all__ = ["rejection_rows", "rejection_table", "well_formed"]


def rejection_rows(rejections: Iterable[Rejection]) -> Iterator[tuple[object, ...]]:
    for rejection in rejections:
        yield (
            rejection.reason,
            well_formed(rejection.detail),
            rejection.file,
            rejection.line,
            rejection.offset,
            well_formed(rejection.text),
            [well_formed(str(event)) for event in rejection.events],
            None if rejection.message is None else well_formed(rejection.message),
        )


def rejection_table(rejections: Iterable[Rejection]) -> pa.Table:
    """The same as STAGED_REJECTED, for whole files."""
    rows = [(*row, None, None) for row in rejection_rows(rejections)]
    columns = list(zip(*rows, strict=True)) or [()] * len(STAGED_REJECTED)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, STAGED_REJECTED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=STAGED_REJECTED)


def well_formed(text: str) -> str:
    """Text that UTF-8 can hold: a JSON escape can make a lone surrogate, which no file takes."""
    return text.encode("utf-8", "backslashreplace").decode()
