"""The one place that makes a Spark session.

1. The master is `local[*]` unless another is asked for, or `spark-submit` chose one. In local mode everything listens
   on loopback only.
2. The workers run the Python of the driver, so that a virtual environment need not be activated; on a cluster the
   package ships itself to them, unless they are told of another Python, which must then have it installed.
3. Time is UTC, Arrow is on, logs are quiet, the page of Spark is off. Anything can be set otherwise with `conf`.
4. A third of the machine's memory goes to the JVM; the Python workers and the pages of the disk take the rest.
5. A JVM that we started ends with the block, and so does everything it started. One that was there is left running,
   with its own settings: we take a session of our own in it.
6. What Spark or a task of it raises in the block leaves it as one clear line, a `BeforehandError`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beforehand.errors import BeforehandError, InputError
from beforehand.pipeline.failing import told, told_by_jvm
from beforehand.pipeline.java import find_java
from beforehand.pipeline.java_classes import MAKING_SECONDS_MAX, class_archive
from beforehand.pipeline.jvm import END_SECONDS_MAX, changed_environment, last_said, running_jvm, scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

MEMORY_SHARE: Final = 1 / 3
MEMORY_MIN_MB: Final = 1_024
MEMORY_MAX_MB: Final = 32_768

ANSWER_SECONDS_MAX: Final = 5
"""How long we wait for a master of a standalone cluster to answer."""

# Left behind by other programs, these would decide for us without a trace.
_SCRUBBED: Final = (
    "SPARK_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_HOME",
    "SPARK_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
)

_BRIEF: Final = "-XX:TieredStopAtLevel=1"

_LOOPBACK: Final = re.compile(r"spark://(127\.\d+\.\d+\.\d+|localhost):")

# What may be set in a session that runs.
_RUNTIME_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A limit in bytes makes Spark count all rows of a batch for each row, which maps make quadratic.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # What is broadcast says so.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

_LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n
# Said on every machine, of no use to anybody.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# Failed tasks are reported by the exception that ends the job.
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.datasources.name = org.apache.spark.sql.execution
logger.datasources.level = off
logger.util.name = org.apache.spark.util
logger.util.level = off
logger.storage.name = org.apache.spark.storage
logger.storage.level = off
logger.python.name = org.apache.spark.api.python
logger.python.level = off
"""


@contextmanager
def session(
    *, master: str | None = None, conf: Mapping[str, str] | None = None, brief: bool = False
) -> Iterator[SparkSession]:
    """A session that ends with the block. Where one exists (a notebook), its Spark is used and left running.

    `brief`: there is little to do. A JVM of our own then does not optimize itself, which would take much of the
    processor's time in its first minute.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    given = dict(conf or {})
    with scratch_folder() as scratch:
        if SparkContext._active_spark_context is not None:
            running = _beside(master, given, scratch)
        elif SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            running = _in_given_jvm(master, given, scratch)  # Of spark-submit, which chose the master.
        else:
            running = _in_own_jvm(master, given, scratch, brief=brief)
        try:
            with running as spark:
                try:
                    yield spark
                except (PySparkException, Py4JError) as error:  # At once, while the JVM can still be asked.
                    raise BeforehandError(told(error)) from error
        except (PySparkException, Py4JError) as error:  # Before the block, or after it.
            raise BeforehandError(told(error)) from error


@contextmanager
def _beside(master: str | None, conf: dict[str, str], scratch: Path) -> Iterator[SparkSession]:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master is not None:
        raise InputError("a Spark session exists already: stop it, or leave --master out")
    theirs = SparkSession.Builder().getOrCreate()
    spark = theirs.newSession()
    for key, value in {**_RUNTIME_SETTINGS, **conf}.items():
        try:
            spark.conf.set(key, value)
        except PySparkException as error:
            raise InputError(
                f"a Spark session exists already, and {key} cannot be set in it: {told(error)}"
            ) from error
    try:
        with _shipped(spark, scratch, needed=not _is_local(spark)):
            yield spark
    finally:
        SparkSession._activeSession = theirs
        SparkSession._get_j_spark_session_class(theirs._jvm).setActiveSession(theirs._jsparkSession)


@contextmanager
def _in_given_jvm(master: str | None, conf: dict[str, str], scratch: Path) -> Iterator[SparkSession]:
    settings = {**_RUNTIME_SETTINGS, **conf}
    with changed_environment({"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable}):
        spark = _built(master, settings)
    try:
        with _shipped(spark, scratch, needed=not _is_local(spark)):
            yield spark
    finally:
        # From a thread, which has a connection of its own: ours may be in the middle of a call.
        ending = threading.Thread(target=spark.stop, daemon=True)
        ending.start()
        ending.join(timeout=END_SECONDS_MAX)


@contextmanager
def _in_own_jvm(master: str | None, conf: dict[str, str], scratch: Path, *, brief: bool) -> Iterator[SparkSession]:
    chosen = master or conf.get("spark.master", "local[*]")
    local = chosen.startswith("local")
    _check_answers(chosen)
    python = conf.get("spark.pyspark.python")
    classes = class_archive(scratch)
    options = ["-XX:+IgnoreUnrecognizedVMOptions", *[_BRIEF] * brief, *([classes.option] if classes else [])]
    settings = {
        **_settings(scratch, loopback=local or bool(_LOOPBACK.match(chosen))),
        **conf,
        "spark.driver.defaultJavaOptions": " ".join([*options, conf.get("spark.driver.defaultJavaOptions", "")]),
        "spark.master": chosen,
    }
    patience = MAKING_SECONDS_MAX if classes and not classes.is_there else END_SECONDS_MAX
    changes = {**dict.fromkeys(_SCRUBBED), "PYSPARK_PYTHON": python or sys.executable, "JAVA_HOME": find_java()}
    with (
        changed_environment(changes),
        running_jvm(settings, dict(os.environ), scratch, end_seconds_max=patience) as said,
    ):
        try:
            spark = _built(chosen, settings)
        except InputError as error:
            if "stopped SparkContext" in str(error):  # The reason is only in the log.
                raise InputError(f"Spark did not start on {chosen}: {told_by_jvm(last_said(said))}") from error
            raise
        with _shipped(spark, scratch, needed=not local and python is None):
            yield spark
    if classes:
        classes.keep()


def _built(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder()
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _kept_interrupts():
            spark = builder.getOrCreate()
        # Spark reads most settings of SQL only when they are used: a wrong value should be told of here.
        for key in settings:
            if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
                spark.conf.set(key, settings[key])
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise InputError(f"Spark did not start on {master or 'the given master'}: {told(error)}") from error
    return spark


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def _check_answers(master: str) -> None:
    """Spark itself would try for a minute, and then say something else."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS_MAX).close()
            return
    raise InputError(f"no Spark master answers at {master}: start one there, or name another --master")


@contextmanager
def _kept_interrupts() -> Iterator[None]:
    """PySpark answers an interrupt by asking the JVM to cancel, on a connection that is busy, and so waits."""
    ours = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)


def _settings(scratch: Path, *, loopback: bool) -> dict[str, str]:
    logs = scratch / "log4j2.properties"
    logs.write_text(_LOG_SETTINGS)
    settings = {
        **_RUNTIME_SETTINGS,
        "spark.app.name": "beforehand",
        "spark.driver.memory": f"{memory_mb()}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logs.as_uri()} -Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": os.environ.get("SPARK_LOCAL_DIRS") or str(scratch),
    }
    if loopback:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def memory_mb() -> int:
    """What the driver's JVM may take, from the memory of the machine or of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):  # Another system, or "max".
            continue
    return int(min(max(total * MEMORY_SHARE / 2**20, MEMORY_MIN_MB), MEMORY_MAX_MB))


@contextmanager
def _shipped(spark: SparkSession, scratch: Path, *, needed: bool) -> Iterator[None]:
    """The package on its way to the workers; its place among our own modules is taken back."""
    before = list(sys.path)
    if needed:
        spark.addArtifacts(str(_own_zip(scratch)), pyfile=True)
    try:
        yield
    finally:
        sys.path[:] = [path for path in sys.path if path in before or not path.endswith("beforehand.zip")]


def _own_zip(scratch: Path) -> Path:
    """This package as one file, for workers that do not have it."""
    package = Path(__file__).parent.parent
    target = scratch / "beforehand.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc"):
                archive.write(path, Path("beforehand") / path.relative_to(package))
    return target
