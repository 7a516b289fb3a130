"""The files of the page over HTTP: open, exact, cached by their content, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Running, running, tokens_for

from beforehand.service.http.paging import page_files


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as service:
        yield service


def test_the_page_is_served_with_a_strict_policy(service: Running) -> None:
    answer = service.get("/")

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_has_no_inline_script_style_or_handler_and_fetches_nothing_from_elsewhere() -> None:
    for name, file in page_files().items():
        text = file.content.decode()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text)
        if name.endswith(".js"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
            ), name


def test_every_module_that_is_imported_is_there_and_every_one_is_used() -> None:
    known = page_files()
    text = {name: file.content.decode() for name, file in known.items()}
    imported = {name for source in text.values() for name in re.findall(r'from "\./([\w.]+)"', source)}
    linked = set(re.findall(r'(?:src|href)="/page/([\w.]+)"', text["index.html"]))

    assert imported | linked == set(known) - {"index.html"}


def test_every_file_is_small_enough_to_read_in_a_sitting() -> None:
    assert {name for name, file in page_files().items() if file.content.count(b"\n") > 400} == set()


def test_an_unchanged_file_is_not_sent_again(service: Running) -> None:
    first = service.get("/page/main.js")
    assert first.status == 200
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"

    for tags in (first.headers["etag"], f'"other", W/{first.headers["etag"]}'):
        again = service.ask("GET", "/page/main.js", headers={"If-None-Match": tags})
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    changed = service.ask("GET", "/page/main.js", headers={"If-None-Match": '"other"'})
    assert changed.status == 200


@pytest.mark.parametrize(
    "path",
    ["/page/", "/page/none.js", "/page/__init__.py", "/page/..%2fpaging.py", "/page/%2e%2e/paging.py", "/index.html"],
)
def test_nothing_else_is_served(service: Running, path: str) -> None:
    answer = service.ask("GET", path)

    assert answer.status == 404
    assert answer.error


def test_the_files_are_open_and_the_data_is_not(tmp_path: Path) -> None:
    tokens_for(tmp_path)
    with running(tmp_path) as service:
        assert service.get("/").status == 200
        assert service.get("/page/main.js").status == 200
        assert service.get("/api/overview").status == 401
