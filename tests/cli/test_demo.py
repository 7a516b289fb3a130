"""`beforehand demo` and the command around it, run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from beforehand import __version__
from beforehand.cli.shop import shop_run
from beforehand.history import History


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beforehand", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_demo_explains_the_failed_checkout(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "=>  orders:17" in done.stdout
    assert "causal order is violated: orders:18 received 'reservation-6' after 'checkout-6'" in done.stdout
    assert "the last 25 of 105 events that happened before it" in done.stdout
    page = (tmp_path / "demo-output" / "history" / "report.html").read_text()
    HTMLParser().feed(page)
    assert page.count("<svg") >= 2
    assert "://" not in page.replace("http://www.w3.org/", ""), "the page needs no network"


@pytest.mark.slow
def test_as_json_standard_output_holds_one_document_and_nothing_else(tmp_path: Path) -> None:
    done = run("demo", "--json", "--last", "5", "--to", "here", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["event"] == "orders:17"
    assert len(document["events"]) == 5
    assert document["counts"] == {"fifo": 0, "causal": 1, "total": 0, "clock": 0}
    assert (tmp_path / document["page"]).exists()
    assert done.stderr == ""


@pytest.mark.parametrize("seed", range(10))
def test_every_day_at_the_shop_is_fifo_and_breaks_causal_order_once(seed: int) -> None:
    history = History(shop_run(seed=seed))
    assert history.rejections == ()
    assert dict(history.check().counts) == {"fifo": 0, "causal": 1, "total": 0, "clock": 0}
    (failure,) = [event for event in history.order() if event.attributes.get("level") == "error"]
    assert {event.process for event in history.explain(failure).events} == set(history.processes)
    by_time = sorted(history.order(), key=lambda event: event.time or 0)
    assert not history.judge_run(by_time).is_consistent, "sorted by time, the log tells nonsense"


def test_the_version_is_told(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"beforehand, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--last", "0"], ["demo", "--seed", "x"]])
def test_wrong_usage_exits_2_with_a_hint(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("beforehand: Error: ")
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


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    # A numpy that cannot be imported stands in front of the real one.
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy', name='numpy')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert done.stderr.strip().endswith("beforehand: numpy is not installed: pip install 'beforehand[pipeline]'")
