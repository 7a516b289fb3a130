"""`beforehand demo` and the command around it, run as a user runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.request import urlopen

import pytest

from analyzing import COMMAND, alive, environment
from beforehand import __version__


def run(*arguments: str, cwd: Path, before: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a process; modules in the folder `before` stand in front of all others."""
    environment = dict(os.environ)
    if before is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(before), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def started(*arguments: str, cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """The demo, in a session of its own."""
    return subprocess.Popen(
        [*COMMAND, "demo", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )


def read_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """The lines of its output up to the first that begins so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith(beginning):
            return lines
    raise AssertionError((beginning, lines, process.stderr.read() if process.stderr else ""))


@pytest.mark.slow
def test_the_demo_explains_the_failed_checkout_and_keeps_its_service_until_ctrl_c(tmp_path: Path) -> None:
    env = environment(TMPDIR=str(tmp_path))
    with started("--keep", cwd=tmp_path, env=env) as process:
        text = "\n".join(read_until(process, "  curl -s 'http"))
        steps = [line for line in text.splitlines() if re.match(r"\d\. ", line)]
        assert len(steps) == 5
        assert all(re.search(r" \(\d+\.\d s\)$", step) for step in steps), "each step has its time"
        assert "messages are delivered in FIFO order" in steps[0]
        assert "The subscriber was told: orders:17 checkout failed (nothing is reserved). It got" in text
        assert "the last 25 of 105 events that could have led to it" in text
        assert "=>  orders:17" in text
        assert "causal order is violated: orders:18 received 'reservation-6' after 'checkout-6'" in text
        assert "The pipeline finds the same past that the service told the subscriber of." in text
        page = (tmp_path / "demo-output" / "history" / "report.html").read_text()
        HTMLParser().feed(page)
        assert page.count("<svg") >= 2
        assert "://" not in page.replace("http://www.w3.org/", ""), "the page needs no network"

        live = re.search(r"(http://127\.0\.0\.1:\d+/)#selected=orders:17&at=\d+&width=\d+$", text, re.MULTILINE)
        assert live is not None
        with urlopen(live[1]) as response:
            assert "<!doctype html>" in response.read().decode().lower()
        with urlopen(f"{live[1]}api/past?id=orders:17&last=3") as response:
            assert [event["id"] for event in json.load(response)["events"]] == ["cart:35", "cart:36", "orders:16"]
        with urlopen(f"{live[1]}api/find?where=name~failed") as response:
            assert [event["id"] for event in json.load(response)["events"]] == ["orders:17"]
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == ["beforehand: stopped"]
    assert process.returncode == 0
    assert alive(env) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-output"]
    assert sorted(path.name for path in (tmp_path / "demo-output").iterdir()) == ["events.jsonl", "history"]


@pytest.mark.slow
def test_in_causal_order_nothing_fails_and_json_is_one_document_and_nothing_else(tmp_path: Path) -> None:
    done = run("demo", "--json", "--order", "causal", "--to", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["order"] == "causal"
    assert document["event"] is document["told"] is document["url"] is None
    assert document["counts"] == {"fifo": 0, "causal": 0, "total": 0, "clock": None}
    assert document["violations"] == document["broken"] == []
    assert list(document["seconds"]) == ["shop", "service", "report", "analyze", "ask"]
    assert (tmp_path / document["page"]).exists()
    assert done.stderr == ""


@pytest.mark.slow
def test_a_demo_that_does_not_show_what_it_promised_exits_with_1(tmp_path: Path) -> None:
    # The protocol of another order stands in for the one that was asked for.
    (tmp_path / "sitecustomize.py").write_text(
        "from beforehand.cli.shop import ORDERS\nORDERS['causal'] = ORDERS['fifo']\n"
    )
    done = run("demo", "--json", "--last", "5", "--order", "causal", cwd=tmp_path, before=tmp_path)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["event"] == "orders:17"
    assert [event["id"] for event in document["events"]] == document["told"]
    assert len(document["told"]) == 5
    assert document["broken"] == [
        "1 checkouts failed in the shop",
        "the subscriber was told of a failure",
        "1 messages were overtaken",
        "1 failures are in the log",
    ]
    assert done.stderr.startswith("beforehand: this is not what the demo promises: 1 checkouts failed in the shop; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "numbers", "status"),
    [
        ("1.", [signal.SIGINT], 130),
        ("3.", [signal.SIGINT], 130),
        ("3.", [signal.SIGTERM], 143),
        ("3.", [signal.SIGINT, signal.SIGTERM], 143),
    ],
)
def test_a_demo_that_is_stopped_leaves_nothing_running(
    beginning: str, numbers: list[signal.Signals], status: int, tmp_path: Path
) -> None:
    """After the first step the service starts; after the third, Spark."""
    env = environment(TMPDIR=str(tmp_path))
    with started(cwd=tmp_path, env=env) as process:
        read_until(process, beginning)
        if beginning == "3.":
            while not any("java" in command for command in alive(env)):
                assert process.poll() is None
        for number in numbers:
            os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == status
    assert errors.count("\n") == 1, "one line says so"
    assert alive(env) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-output"]
    assert sorted(path.name for path in (tmp_path / "demo-output").iterdir()) == ["events.jsonl"]


def test_a_demo_that_fails_in_the_middle_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "sitecustomize.py").write_text(
        "import importlib\n"
        "from beforehand.errors import InputError\n"
        "def find_java():\n"
        "    raise InputError('no Java was found')\n"
        "importlib.import_module('beforehand.pipeline.session').find_java = find_java\n"
    )
    done = run("demo", cwd=tmp_path, before=tmp_path / "before")
    assert done.returncode == 2
    assert done.stderr == "beforehand: no Java was found\n"
    assert "3. The processes report to it" in done.stdout, "the service ran"
    url = re.search(r"127\.0\.0\.1:(\d+)", done.stdout)
    assert url is not None
    with pytest.raises(OSError), urlopen(f"http://127.0.0.1:{url[1]}/healthz", timeout=5):  # noqa: PT011
        pass
    assert [path.name for path in (tmp_path / "demo-output").iterdir()] == ["events.jsonl"]


def test_the_version_is_told(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"beforehand, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["demo", "--last", "0"], ["demo", "--seed", "x"], ["demo", "--order", "none"]]
)
def test_wrong_usage_exits_2_with_a_hint(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("beforehand: ")
    assert "Error" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("demo", "--to", "file/under", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "choose another with --to" in done.stderr


def test_an_output_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "demo-output" / "events.jsonl").mkdir(parents=True)
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_no_history_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "demo-output" / "history").mkdir(parents=True)
    (tmp_path / "demo-output" / "history" / "mine").write_text("keep me")
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "demo-output/history" in done.stderr
    assert [path.name for path in (tmp_path / "demo-output").iterdir()] == ["history"], "it was seen at once"
    assert (tmp_path / "demo-output" / "history" / "mine").read_text() == "keep me"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m beforehand --help 2>errors | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_a_closed_output_and_one_that_cannot_show_an_arrow_are_no_errors(tmp_path: Path) -> None:
    for command in (f"{sys.executable} -m beforehand --help >&-", f"{sys.executable} -m beforehand --help"):
        environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr


def test_a_log_that_keeps_nothing_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "events.jsonl").symlink_to("/dev/null")
    done = run("demo", "--to", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "did not keep the events written to it" in done.stderr.splitlines()[-1]


def test_a_package_that_does_not_load_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    # A numpy that cannot be imported stands in front of the real one.
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy', name='numpy')\n")
    done = run("demo", cwd=tmp_path, before=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("beforehand: numpy is not installed: pip install 'beforehand[pipeline]'")


@pytest.mark.parametrize("module", ["fastapi", "pyspark"])
def test_without_the_service_or_spark_the_demo_says_what_to_install(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    done = run("demo", cwd=tmp_path, before=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"beforehand: {module} is not installed: pip install 'beforehand[pipeline,service]'\n"
    assert not (tmp_path / "demo-output").exists()
