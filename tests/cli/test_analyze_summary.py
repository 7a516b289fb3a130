"""What `beforehand analyze` says at its end, of a report that is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.analyze import _summary

REPORT: dict[str, Any] = {
    "events": 2,
    "processes": 2,
    "executions": 1,
    "messages": 0,
    "receives": 0,
    "depth": None,
    "rejected": 0,
    "violations": {"fifo": 0, "causal": 0, "total": 0, "clock": None},
    "notes": [],
    "failures": [],
}


def example(reason: str, file: str | None, line: int | None, detail: str) -> dict[str, Any]:
    return {"reason": reason, "file": file, "line": line, "detail": detail, "text": ""}


def test_three_rejections_are_told_whole_files_first_and_of_each_reason_one() -> None:
    here = str(Path.cwd() / "logs")
    report = REPORT | {
        "rejected": 183,
        "rejected_reasons": {"not-json": 170, "not-an-event": 1, "unusable-file": 12},
        "rejected_examples": [
            example("not-json", f"{here}/b.jsonl", 2, "the line is not JSON"),
            example("not-json", f"{here}/b.jsonl", 3, "the line is not JSON"),
            example("not-an-event", f"{here}/b.jsonl", 7, "it is no object"),
            example("unusable-file", f"{here}/z.txt", None, f"{here}/z.txt looks like nothing"),
        ],
    }
    lines = _summary(report, Path("h")).splitlines()
    assert lines[1:6] == [
        "rejected: 183 (not-json 170, not-an-event 1, unusable-file 12)",
        "  logs/z.txt: unusable-file: looks like nothing",
        "  logs/b.jsonl:2: not-json: the line is not JSON",
        "  logs/b.jsonl:7: not-an-event: it is no object",
        "  and 180 more; all are in h/rejected",
    ]


def test_a_single_rejection_has_no_more() -> None:
    report = REPORT | {
        "rejected": 1,
        "rejected_reasons": {"cycle": 1},
        "rejected_examples": [example("cycle", None, None, "a cycle")],
    }
    lines = _summary(report, Path("h")).splitlines()
    assert lines[2:4] == ["  cycle: a cycle", "  all are in h/rejected"]


@pytest.mark.parametrize(
    ("violations", "said"),
    [
        ({"fifo": 0, "causal": 0, "total": 0, "clock": None}, "none"),
        ({"fifo": 0, "causal": 2, "total": None, "clock": None}, "causal 2"),
        ({"fifo": None, "causal": None, "total": None, "clock": None}, "not judged"),
        ({"fifo": None, "causal": None, "total": None, "clock": 0}, "none in reported clocks"),
    ],
)
def test_none_is_said_only_of_what_was_judged(violations: dict[str, int | None], said: str) -> None:
    assert f"violations: {said}" in _summary(REPORT | {"violations": violations}, Path("h")).splitlines()
