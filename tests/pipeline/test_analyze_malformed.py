"""Malformed input: what can be read is analyzed, what cannot is told, and where nothing is left there is one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analyses import Analysis, analyzed
from beforehand.cli.analyze import _silence_stacks, _summary
from beforehand.errors import InputError
from beforehand.formats import FieldMap
from beforehand.pipeline import inputs
from beforehand.pipeline.failing import told
from beforehand.pipeline.jobs.running import run_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def of(process: str, count: int = 2) -> bytes:
    return lines(*({"process": process, "name": f"{process}{at}"} for at in range(1, count + 1)))


# Broken files.


@pytest.fixture(scope="module")
def broken(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """All of them in one directory, each with a process of its own name."""
    folder = tmp_path_factory.mktemp("broken")
    noise = b"".join(os.urandom(64).hex().encode() for _ in range(200))  # What gzip cannot make small.
    events = b"".join(
        lines({"process": "gzip", "name": noise[at : at + 100].decode()}) for at in range(0, 20_000, 100)
    )
    files = {
        "binary": bytes(range(256)) * 10,
        "closed": of("closed"),
        "cut-gzip.jsonl.gz": gzip.compress(events)[:-5_000],
        "cut.jsonl": of("cut")[:-5],
        "deep.jsonl": of("deep") + b'{"process": "deep", "attributes": {"x": ' + b"[" * 500 + b"]" * 500 + b"}}\n",
        "empty": b"",
        "encodings.jsonl": of("encodings")
        + '{"process": "encodings", "name": "é"}\n'.encode("latin-1")
        + of("encodings"),
        "huge.jsonl": b"".join(
            lines({"execution": "huge", "process": "huge", "index": index}) for index in (2**63 - 1, 2**63)
        ),
        "long.jsonl": of("long", 1) + lines({"process": "long", "name": "x" * (1 << 20)}) + of("long", 1),
        "mixed.jsonl": of("mixed", 1) + lines({"process": "mixed", "index": 7}) + of("mixed", 1),
        "no-gzip.jsonl.gz": of("no-gzip"),
        "nul.jsonl": of("nul", 1) + b'{"process": "nul", "name": "a\\u0000b"}\n' + b"\0\0\0\0\n" + of("nul", 1),
        "surrogates.jsonl": of("surrogates", 1) + b'{"process": "surrogates", "name": "\\ud800"}\n',
        "text": b"To be or not to be,\nthat is the question.\n",
        "utf16": "To be or not to be".encode("utf-16"),
        "zipkin.json": b'[{"traceId": "01", "id": "02", "name": "cut here", "timest',
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to(folder / "nowhere")
    odd = os.fsencode(folder) + b"/odd-\xff.jsonl"
    Path(os.fsdecode(odd)).write_bytes(of("odd") + b"?\n")
    may_read = os.access
    with pytest.MonkeyPatch.context() as patch:  # For root may read everything.
        patch.setattr(os, "access", lambda path, mode: not str(path).endswith("/closed") and may_read(path, mode))
        return analyzed(folder, folder / "_history")


def test_what_stands_around_bad_lines_is_kept(broken: Analysis) -> None:
    counts: dict[str, int] = {}
    for event in broken.events:
        counts[event["process"]] = counts.get(event["process"], 0) + 1
    kept = counts.pop("gzip")
    assert 0 < kept < 200
    assert counts == {
        "cut": 1, "deep": 2, "encodings": 4, "huge": 1, "long": 2, "mixed": 2, "nul": 3, "odd": 2, "surrogates": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("binary", [("unusable-file", None)]),
        ("closed", [("unusable-file", None)]),
        ("cut.jsonl", [("not-json", 2)]),
        ("dangling", [("unusable-file", None)]),
        ("deep.jsonl", [("too-deep", 3)]),
        ("empty", [("unusable-file", None)]),
        ("encodings.jsonl", [("not-json", 3)]),
        ("fifo", [("unusable-file", None)]),
        ("huge.jsonl", [("not-an-event", 2)]),
        ("long.jsonl", [("line-too-long", 2)]),
        ("mixed.jsonl", [("index-mixed", 2)]),
        ("no-gzip.jsonl.gz", [("unusable-file", None)]),
        ("nul.jsonl", [("not-json", 3)]),
        ("odd-\\udcff.jsonl", [("not-json", 3)]),
        ("surrogates.jsonl", [("not-json", 2)]),
        ("text", [("unusable-file", None)]),
        ("utf16", [("unusable-file", None)]),
        ("zipkin.json", [("not-json", 1)]),
    ],
)
def test_a_bad_line_or_file_is_told(broken: Analysis, file: str, expected: list[tuple[str, int | None]]) -> None:
    assert broken.refused(file) == expected


def test_a_cut_gzip_file_says_where_reading_stopped(broken: Analysis) -> None:
    (refused,) = [row for row in broken.rejected if row["file"] == "cut-gzip.jsonl.gz"]
    assert refused["reason"] == "unreadable"
    assert refused["line"] == sum(e["process"] == "gzip" for e in broken.events) + 1


def test_every_rejection_has_a_sentence_of_one_line(broken: Analysis) -> None:
    assert broken.report["rejected"] == len(broken.rejected) == 19
    for row in broken.rejected:
        assert row["detail"].strip()
        assert "\n" not in row["detail"]
        assert len(row["text"]) <= 200


# Broken structure.

STRUCTURE = lines(
    {"execution": "cycle", "process": "a", "receives": ["back"], "sends": ["forth"]},
    {"execution": "cycle", "process": "b", "receives": ["forth"], "sends": ["back"]},
    {"execution": "index", "process": "a", "index": 1, "name": "first"},
    {"execution": "index", "process": "a", "index": 1, "name": "second"},
    {"execution": "index", "process": "a", "index": 5, "name": "after a gap"},
    {"execution": "send", "process": "a", "sends": ["m"]},
    {"execution": "send", "process": "b", "sends": ["m"]},
    {"execution": "send", "process": "c", "receives": ["m"]},
    {"execution": "receive", "process": "a", "sends": ["m"]},
    {"execution": "receive", "process": "b", "receives": ["m"]},
    {"execution": "receive", "process": "b", "receives": ["m"]},
    {"execution": "unsent", "process": "a", "receives": ["from nowhere"]},
    {"execution": "unsent", "process": "b", "sends": ["to nowhere"]},
    {"execution": "huge", "process": "a", "index": 2**63 - 1},
    {"execution": "huge", "process": "b", "index": 2**63 - 1},
)


@pytest.fixture(scope="module")
def structures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysis]:
    """Small executions are analyzed whole, large ones in blocks."""
    folder = tmp_path_factory.mktemp("structure")
    (folder / "in.jsonl").write_bytes(STRUCTURE)
    return {
        "whole": analyzed(folder / "in.jsonl", folder / "whole"),
        "blocks": analyzed(folder / "in.jsonl", folder / "blocks", blocks=2),
    }


@pytest.mark.parametrize("way", ["whole", "blocks"])
def test_bad_structure_is_told_and_the_events_stay(structures: dict[str, Analysis], way: str) -> None:
    analysis = structures[way]
    assert dict(analysis.reasons) == {
        "cycle": 2, "duplicate-event": 1, "duplicate-send": 1, "duplicate-receive": 1, "index-too-large": 1
    }  # fmt: skip
    assert len(analysis.events) == analysis.report["events"] == 12
    assert ("index", "a", 1, "first") in analysis.ids
    assert analysis.report["unsent"] == 1
    assert any("indexes without an event" in note for note in analysis.report["notes"])


@pytest.mark.parametrize("way", ["whole", "blocks"])
def test_bad_structure_is_told_with_the_events_that_it_is_in(structures: dict[str, Analysis], way: str) -> None:
    rows = {row["reason"]: row for row in structures[way].rejected}
    assert set(rows["cycle"]["events"]) == {"cycle/a:1", "cycle/b:1"}
    assert rows["duplicate-event"]["events"][-1:] == ["index/a:1"]
    assert rows["duplicate-send"]["message"] == "m"
    assert rows["duplicate-send"]["events"] == ["send/a:1", "send/b:1"]
    assert rows["duplicate-receive"]["events"] == ["receive/b:1", "receive/b:2"]


def test_duplicates_of_small_executions_are_told_with_where_they_stood(structures: dict[str, Analysis]) -> None:
    lines = STRUCTURE.splitlines(keepends=True)
    rows = {row["reason"]: row for row in structures["whole"].rejected}
    for reason in ("duplicate-event", "duplicate-send", "duplicate-receive"):
        at = rows[reason]["offset"]
        assert rows[reason]["file"] == "in.jsonl"
        assert at in {sum(map(len, lines[:number])) for number in range(1, len(lines))}, "it begins a line"
        execution = {"duplicate-event": "index", "duplicate-send": "send", "duplicate-receive": "receive"}[reason]
        assert f'"execution": "{execution}"'.encode() in STRUCTURE[at:].splitlines()[0]


def test_both_ways_count_bad_structure_alike(structures: dict[str, Analysis]) -> None:
    keys = ("events", "messages", "receives", "unreceived", "unsent", "rejected_reasons", "violations")
    whole, blocks = (structures[way].report for way in ("whole", "blocks"))
    assert {key: whole[key] for key in keys} == {key: blocks[key] for key in keys}


# Standard input, globs, and names given twice.


def test_standard_input_a_glob_and_a_file_named_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(of("a"))
    (tmp_path / "in" / "b.jsonl").write_bytes(of("b"))
    (tmp_path / "in" / "c.txt").write_bytes(of("c"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(of("piped") + b"nonsense\n"))))
    monkeypatch.chdir(tmp_path)

    analysis = analyzed(
        ["-", "in/*.jsonl", "in/a.jsonl", "./in/a.jsonl", f"file://{tmp_path}/in/a.jsonl", "-"], tmp_path / "history"
    )

    assert [(process, index) for _, process, index, _ in analysis.ids] == [
        ("a", 1), ("a", 2), ("b", 1), ("b", 2), ("piped", 1), ("piped", 2)
    ]  # fmt: skip
    assert analysis.refused("standard input") == [("not-json", 3)]
    assert "standard input" in [one["path"] for one in analysis.report["inputs"]]


# Nothing usable.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere", "cannot open nowhere: No such file or directory"),
        ("no-files", "no-files has no files: name another"),
        ("*.nothing", "no file matches *.nothing"),
        ("hdfs://host/file", "hdfs://host/file: only files that all machines reach"),
        ("empty", "empty is empty: leave it out, or name its format"),
        ("fifo", "fifo is no plain file: copy it to one, or use - for standard input"),
        ("e*", "is empty: leave it out, or name its format with --format NAME"),
        ("bad", "looks like text of no known format"),
        ("history", "history is a history directory: to read its events again, name its folder events"),
        ("bad\0", "cannot open bad"),
    ],
)
def test_unusable_input_is_refused_before_spark_starts(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no-files").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "history" / "events").mkdir(parents=True)
    (tmp_path / "history" / "manifest.json").touch()
    (tmp_path / "history" / "events" / "some.parquet").touch()
    (tmp_path / "bad").write_text("To be or not to be,\nthat is the question.\n")
    os.mkfifo("fifo")

    with pytest.raises(InputError) as refused:
        inputs.input_files([given], inputs.InputOptions(), scratch=tmp_path)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_error_says_how_many_files_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    with pytest.raises(InputError, match=r"one is empty: .* \(and no other of the 2 files can be used\)"):
        inputs.input_files([str(tmp_path)], inputs.InputOptions(), scratch=tmp_path)


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.jsonl").write_bytes(of("a"))
    scan = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)

    found = inputs.input_files([str(tmp_path)], inputs.InputOptions(), scratch=tmp_path)

    assert [file.problem is None for file in found] == [True, False]
    assert str(found[1].problem).startswith(f"cannot list {tmp_path}/closed")


def broken_parquet() -> bytes:
    """Its end is as it should be, its pages are not."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"process": ["p"] * 1_000, "index": range(1_000)}), sink)
    return sink.getvalue()[:4] + b"\xff" * 500 + sink.getvalue()[504:]


CSV_MAP = FieldMap(format="csv", process=("host",), name=("what",))


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (b"a b c\nd e f\n", {"regex": "(?<host>"}, "the regex"),
        (b"a b c\nd e f\n", {"regex": "(?<host>x)(?<clock>y)(?<event>z)"}, "2 line(s) match no record"),
        (
            b"who,what\na,b\n",
            {"fields": CSV_MAP},
            'the map reads process from "host", but the header has "who", "what"',
        ),
        (b"PAR1 and no more", {}, "is not a whole Parquet file"),
        (broken_parquet(), {}, "in is broken, or its columns are not those of events: write it again"),
        (b'{"process": 7}\n', {"format": "native"}, "process is 7, not a text"),
        (b"\n\n", {"format": "native"}, "there is not one event in it"),
        (b'{"data": [], "total": 0, "errors": null}', {}, "there is not one event in it"),
    ],
)
def test_input_without_one_event_is_refused_with_the_first_problem(
    spark: SparkSession, data: bytes, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(data)

    with pytest.raises(InputError) as refused:
        analyzed(tmp_path / "in", tmp_path / "history", **options)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


# The command.


def test_an_exception_in_a_task_is_told_in_its_own_words(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        raise ValueError("the moon is full")

    with pytest.raises(Exception, match="the moon is full") as failed:
        run_tasks(spark, 1, fail)
    assert told(failed.value) == "a task failed: ValueError: the moon is full"


def test_spark_keeps_its_stacks_for_itself(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    _silence_stacks()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as failed:
        spark.sql("select 1 / 0").collect()
    assert "[DIVIDE_BY_ZERO] Division by zero." in told(failed.value)
    assert capfd.readouterr().err == ""


def test_the_summary_shows_what_events_say_and_can_be_copied_into_a_shell() -> None:
    report = {
        "events": 2,
        "processes": 1,
        "executions": 1,
        "messages": 0,
        "receives": 0,
        "depth": None,
        "rejected": 0,
        "violations": {},
        "notes": ["of \x1b[2J"],
        "failures_total": 1,
        "failures": [{"event": "it's $(mine):2", "name": "\x1b]0;owned\x07"}],
    }
    said = _summary(report, Path("my history"))
    assert "\x1b" not in said
    assert "note: of ␛[2J" in said
    assert "the first: it's $(mine):2 ␛]0;owned␇" in said
    line = next(line for line in said.split("\n") if "beforehand explain" in line)
    assert shlex.split(line.partition(": ")[2]) == ["beforehand", "explain", "my history", "it's $(mine):2"]


def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "beforehand", "analyze", *arguments], input=stdin, capture_output=True, check=False
    )


@pytest.mark.slow
def test_the_command_prints_one_document_and_nothing_else(tmp_path: Path) -> None:
    done = command("-", "--to", str(tmp_path / "history"), "--json", stdin=of("a") + b"nonsense\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rejected_reasons"] == {"not-json": 1}
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.slow
def test_the_command_says_in_one_line_that_nothing_was_usable(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"nonsense\n" * 3)
    done = command(str(tmp_path / "in"), "--format", "native", "--to", str(tmp_path / "history"), "--json")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(
        f"beforehand: {tmp_path}/in: not one event could be read; the first problem:".encode()
    )
    assert not (tmp_path / "history").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "cannot open nowhere"),
        (["x", "--map", "nowhere.toml"], "cannot open nowhere.toml"),
        (["x", "--format", "otlp", "--regex", "y"], "--regex and --delimiter are for ShiViz logs"),
        (["x", "--conf", "spark"], "is not KEY=VALUE"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = command(*arguments, "--to", str(tmp_path / "history"))
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert said.encode() in done.stderr
