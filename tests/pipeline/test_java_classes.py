"""An archive of Java classes is asked for by a variable, made once and whole, and used from then on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beforehand.pipeline.java_classes import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "BEFOREHAND_JAVA_CLASSES"


def test_without_the_variable_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert class_archive(tmp_path) is None
    monkeypatch.setenv(VARIABLE, "")
    assert class_archive(tmp_path) is None


def test_an_archive_that_is_not_there_is_made_and_then_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, scratch = tmp_path / "with a space.jsa", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv(VARIABLE, str(place))

    archive = class_archive(scratch)
    assert archive is not None
    assert archive.option == f"-XX:ArchiveClassesAtExit={scratch / 'classes.jsa'}"
    archive.keep()  # The JVM was killed before it made one.
    assert not archive.is_there
    archive.made.write_bytes(b"classes")
    archive.keep()

    assert place.read_bytes() == b"classes"
    assert archive.option == f"'-XX:SharedArchiveFile={place}'"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["scratch", "with a space.jsa"]


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere" / "classes.jsa"))
    archive = class_archive(tmp_path)
    assert archive is not None
    archive.made.write_bytes(b"classes")
    archive.keep()
    assert not archive.is_there


def test_the_jvm_of_these_tests_has_its_classes_from_the_archive(spark: SparkSession) -> None:
    place = os.environ.get(VARIABLE)
    if not place or not Path(place).is_file():
        pytest.skip(f"{VARIABLE} is not set (make test sets it), or this Java makes no archives")
    arguments = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert f"-XX:SharedArchiveFile={Path(place).absolute()}" in list(arguments)
