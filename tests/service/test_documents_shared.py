"""The commands and the routes of the service say the same with the same keys; HTTP may add some."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from servers import Client, running
from view_sources import write_violations

from beforehand.cli.command import beforehand
from beforehand.cli.shop import shop_run
from history_directories import make_pack_directory

DAY = [replace(event, execution="day") for event in shop_run(seed=1, customers=2)]
FAILED = next(str(event.id) for event in DAY if event.name == "checkout failed")
FIRST = str(DAY[0].id)
WHERE = "name ~ checkout"
ASKED: dict[str, tuple[list[str], str, dict[str, object]]] = {
    "explain": ([FAILED, "--last", "5"], "/api/past", {"id": FAILED, "last": 5}),
    "relate": ([FIRST, FAILED], "/api/relate", {"first": FIRST, "second": FAILED}),
    "find": (["--where", WHERE], "/api/find", {"where": WHERE}),
    "check": ([], "/api/checks", {}),
    "cut": (["--after", FAILED], "/api/cut", {"after": FAILED}),
    "order": ([], "/api/order", {"limit": 100}),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    case = make_pack_directory([DAY], tmp_path_factory.mktemp("shared"), packs=1)
    write_violations(case.path, DAY)
    return case.path


@pytest.fixture(scope="module", params=["store", "directory"])
def client(request: pytest.FixtureRequest, directory: Path) -> Iterator[Client]:
    if request.param == "directory":
        with running(directory.parent, directory=directory) as service:
            yield service
    else:
        with running(directory.parent) as service:
            service.report(DAY)
            yield service


def told(command: str, directory: Path, arguments: list[str]) -> Any:
    """The document of a command; of `order` its lines, which are events, as a page has them."""
    options = [] if command == "order" else ["--json"]
    result = CliRunner().invoke(beforehand, [command, str(directory), *arguments, *options])
    assert result.exit_code in (0, 1), result.output
    if command == "order":
        return {"events": [json.loads(line) for line in result.stdout.splitlines()]}
    return json.loads(result.stdout)


def only(document: Any, pattern: Any) -> Any:
    """A document without the keys that the pattern does not have."""
    if isinstance(document, dict) and isinstance(pattern, dict):
        return {key: only(document[key], pattern[key]) for key in pattern if key in document}
    if isinstance(document, list) and isinstance(pattern, list) and len(document) == len(pattern):
        return [only(one, other) for one, other in zip(document, pattern, strict=True)]
    return document


@pytest.mark.parametrize("command", ASKED)
def test_whatever_a_command_says_the_route_says_with_the_same_keys(
    client: Client, directory: Path, command: str
) -> None:
    arguments, route, query = ASKED[command]

    document = told(command, directory, arguments)

    assert document
    assert only(client.found(route, **query), document) == document
