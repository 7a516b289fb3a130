"""Reports to a file, read back by the native reader, through kills and full disks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats import read_events
from beforehand.reporting import FileTarget, Later, Reporter, Taken

MINUTE = 60.0


def events_of(*paths: Path) -> list[Event]:
    found = list(read_events(list(paths)))
    assert all(isinstance(one, Event) for one in found), found
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
def test_the_native_reader_reads_back_what_was_reported(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "events of today.jsonl"
    text = f"{scheme}{path}".replace(" ", "%20") if scheme else str(path)
    with Reporter(text, process="p", stamps=True) as reporter:
        reported = [
            reporter.event("opened", attributes={"a\nb": "\0\u2028"}),
            reporter.sending("asked").event,
            reporter.receiving("answered", "m1"),
        ]
    assert events_of(path) == reported


def test_a_file_goes_on_where_another_program_ended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for start in (1, 2):
        with Reporter(path, process="p", start=start) as reporter:
            reporter.event("one")
    assert [event.index for event in events_of(path)] == [1, 2]


def test_a_partial_last_line_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"process":"p","index":1}\n{"process":"p","ind')
    with Reporter(path, process="p", start=3) as reporter:
        reporter.event("next")
    one, partial, three = read_events(path)
    assert isinstance(one, Event)
    assert isinstance(partial, Rejection)
    assert (partial.reason, partial.line) == ("not-json", 2)
    assert isinstance(three, Event)
    assert three.index == 3


WRITE_FOR_EVER = """
import sys
from beforehand.reporting import Reporter
reporter = Reporter(sys.argv[1], process=sys.argv[2], drop="wait", wait=60.0, linger=0.0)
while True:
    reporter.event("x" * 900, attributes={"a": "y" * 9000})
"""


def test_killed_in_the_middle_of_writing_at_most_the_last_line_is_partial(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    killed = 0
    for process in ("first", "second"):
        writer = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path), process])
        size = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < size + 1_000_000:
            with pytest.raises(subprocess.TimeoutExpired):  # It runs for ever.
                writer.wait(0.01)
        writer.kill()
        killed += writer.wait() == -9
    assert killed == 2
    lines: dict[str, list[int]] = {"first": [], "second": []}
    rejected = 0
    for one in read_events(path):
        if isinstance(one, Event):
            lines[one.process].append(one.index)
        else:
            rejected += 1
    assert rejected <= 2
    for indexes in lines.values():  # Nothing before the end is missing, and nothing is there twice.
        assert indexes == list(range(1, len(indexes) + 1))
        assert len(indexes) > 50


FULL_DISK = """
import resource, sys
from beforehand.reporting import FileTarget
lines = [b'{"process":"p","index":%d}' % index for index in range(1, 5)]
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for size in sys.argv[2:]:
    target = FileTarget(f"{sys.argv[1]}/{size}.jsonl")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), most))
    first = target.send(lines)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    second = target.send(lines[first.taken:])
    target.close()
    print(size, first.taken, second.stored)
"""


def test_a_full_disk_loses_nothing_and_writes_nothing_twice(tmp_path: Path) -> None:
    sizes = ["62", "52", "51", "5"]  # A line takes 26 bytes with its newline.
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path), *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "62 2 2",  # The disk was full in the middle of the third line,
        "52 2 2",  # between two lines,
        "51 2 2",  # before a newline, which comes first the next time,
        "5 0 4",  # and in the middle of the first line.
    ]
    partial = []
    for size in sizes:
        found = list(read_events(tmp_path / f"{size}.jsonl"))
        assert [one.index for one in found if isinstance(one, Event)] == [1, 2, 3, 4]
        partial.append([one.reason for one in found if isinstance(one, Rejection)])
    assert partial == [["not-json"], [], [], ["not-json"]]


def test_a_device_that_is_full_is_tried_again_later() -> None:
    target = FileTarget("/dev/full")
    answer = target.send([b"{}"])
    target.close()
    assert answer == Later(error="cannot write /dev/full: No space left on device")


def test_files_are_set_aside_by_size_and_none_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    kept = tmp_path / "events.2.jsonl"
    kept.write_text('{"process":"other","index":1}\n')
    target = FileTarget(path, bytes_max=100)
    for index in range(1, 11):
        assert target.send([b'{"process":"p","index":%d,"name":"%s"}' % (index, b"x" * 30)]) == Taken(stored=1)
    target.close()
    names = sorted(found.name for found in tmp_path.iterdir())
    assert names == [
        "events.1.jsonl",
        "events.2.jsonl",
        "events.3.jsonl",
        "events.4.jsonl",
        "events.5.jsonl",
        "events.jsonl",
    ]
    assert kept.read_text() == '{"process":"other","index":1}\n'
    events = events_of(*tmp_path.iterdir())
    assert sorted(event.index for event in events if event.process == "p") == list(range(1, 11))


def test_a_file_that_somebody_renamed_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    target = FileTarget(path, sync="batch")
    target.send([b'{"process":"p","index":1}'])
    path.rename(tmp_path / "old.jsonl")
    target.send([b'{"process":"p","index":2}'])
    target.close()
    assert [event.index for event in events_of(path)] == [2]


def test_two_writers_of_one_file_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    reporters = [Reporter(path, process=name, linger=0.0) for name in ("p", "q")]

    def work(reporter: Reporter) -> None:
        for _ in range(300):
            reporter.event("x" * 500)

    threads = [threading.Thread(target=work, args=(reporter,)) for reporter in reporters]
    for thread in threads:
        thread.start()
    for thread, reporter in zip(threads, reporters, strict=True):
        thread.join()
        assert reporter.close(MINUTE)
    events = events_of(path)
    for name in ("p", "q"):
        assert [event.index for event in events if event.process == name] == list(range(1, 301))


@pytest.mark.parametrize("name", ["events.jsonl.gz", "events.zst", "no/such/place", "", "nul\0"])
def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="target"):
        FileTarget(f"{tmp_path}/{name}")


def test_wrong_settings_of_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of batch, close and never"):
        FileTarget(tmp_path / "e", sync="always")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1"):
        FileTarget(tmp_path / "e", bytes_max=0)
