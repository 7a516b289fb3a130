"""A standalone cluster of three processes on loopback gives what local mode gives, with the package that we ship."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzing import CHEAP, alive, environment, order_of, report_of, rows_of, run, wait_until, write_histories
from free_ports import free_port

WHERE_IS_THE_PACKAGE = """
import sys
from beforehand.pipeline.session import session

def told(batches):
    import os
    import pyarrow as pa
    import beforehand
    from beforehand.events import Event
    from beforehand.history import History
    History([Event(process="p", index=1), Event(process="p", index=2)]).past_size("p:2")  # Runs a compiled kernel.
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pylist([{"place": os.path.abspath(beforehand.__file__)}])

with session(master=sys.argv[1], conf={"spark.driver.memory": "1g"}) as spark:
    print(*{row.place for row in spark.range(0, 2, 1, 2).mapInArrow(told, "place string").collect()}, sep="\\n")
"""


@dataclass
class Cluster:
    master: str
    env: dict[str, str]
    logs: Path
    work: Path

    def executors(self) -> set[tuple[str, int]]:
        """The workers that ran executors, and how many of an application."""
        return {(app.parent.name, len(list(app.iterdir()))) for app in self.work.glob("*/app-*")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from beforehand.pipeline.java import find_java

    folder = tmp_path_factory.mktemp("cluster")
    # The workers run in a folder and with a path that do not have the package.
    env = environment(JAVA_HOME=find_java(), SPARK_LOCAL_IP="127.0.0.1", SPARK_NO_DAEMONIZE="1")
    env.pop("PYTHONPATH", None)
    with ExitStack() as running:
        port = free_port()
        options = ["--host", "127.0.0.1", "--webui-port", "0"]
        log = folder / "master.log"
        running.enter_context(_process("master.Master", *options, "--port", str(port), env=env, log=log))
        wait_until(lambda: "I have been elected leader" in log.read_text(), "the master is ready")
        for at in (0, 1):
            work = folder / "work" / str(at)
            arguments = [*options, "-c", "1", "-m", "1g", "-d", str(work), f"spark://127.0.0.1:{port}"]
            running.enter_context(_process("worker.Worker", *arguments, env=env, log=folder / f"worker-{at}.log"))
        wait_until(lambda: log.read_text().count("Registering worker") == 2, "two workers have registered")
        yield Cluster(f"spark://127.0.0.1:{port}", env, folder, folder / "work")
    wait_until(lambda: not alive(env), "the cluster has ended", seconds=30)


@contextmanager
def _process(kind: str, *arguments: str, env: dict[str, str], log: Path) -> Iterator[None]:
    import pyspark

    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}",
        *arguments,
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=env, cwd=log.parent
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening_elsewhere(env: dict[str, str]) -> list[str]:
    """Addresses other than loopback on which processes of the cluster listen."""
    import psutil

    mark = env["BEFOREHAND_TEST_TAG"]
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BEFOREHAND_TEST_TAG") == mark:
                found += [c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        except psutil.Error:
            continue
    assert found
    return [ip for ip in found if ip.removeprefix("::ffff:") not in ("127.0.0.1", "::1")]


@pytest.mark.slow
def test_cluster_gives_what_local_mode_gives(cluster: Cluster, tmp_path: Path) -> None:
    given = write_histories(tmp_path / "events.jsonl")
    here, there = tmp_path / "here", tmp_path / "there"

    for directory, master in ((there, cluster.master), (here, "local[2]")):
        brief = [
            "--conf",
            "spark.executor.defaultJavaOptions=-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1",
        ]
        options = ["--blocks", 6, "--master", master, "--json", *brief, *CHEAP]
        done = run("analyze", given, "--to", directory, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["events"] == 420

    assert report_of(there) == report_of(here)
    assert order_of(there) == order_of(here)
    by_id = ["execution", "process", "index"]
    assert rows_of(there / "events", sort_by=by_id) == rows_of(here / "events", sort_by=by_id)
    columns = ["execution", "message", "outcome", "send_process", "send_index", "receive_process", "receive_index"]
    assert rows_of(there / "messages", sort_by=columns) == rows_of(here / "messages", sort_by=columns)
    assert rows_of(there / "violations", sort_by=["kind", "why"]) == rows_of(
        here / "violations", sort_by=["kind", "why"]
    )
    assert cluster.executors() == {("0", 1), ("1", 1)}
    assert listening_elsewhere(cluster.env) == []


@pytest.mark.slow
def test_workers_use_the_package_that_came_with_the_job(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "where.py"
    script.write_text(WHERE_IS_THE_PACKAGE)

    done = run(cluster.master, command=[sys.executable, str(script)])

    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert len(places) == 2  # One for each executor.
    for place in places:
        assert place.startswith(f"{cluster.work}{os.sep}")
        assert place.endswith(os.path.join("beforehand.zip", "beforehand", "__init__.py"))
