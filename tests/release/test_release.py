"""The wheel and the sdist have all that a user needs, and an environment with little in it says what it lacks.

`make release-check` does this for every extra, installed by pip from an index; here two environments are linked from
the packages of this Python, which needs no index.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import beforehand
from beforehand.cli.command import _COMMANDS
from beforehand.cli.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from release.__main__ import check_types  # noqa: E402 (it is no package of src/: found by the line above)
from release.asking import CASES, Case, ask, ask_command, brings  # noqa: E402
from release.building import Built, build, check_contents, check_rebuilt, package_files  # noqa: E402
from release.environments import BASE, distributions, extras, linked  # noqa: E402


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def base(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked(built.wheel, BASE, tmp_path_factory.mktemp("base"))


def test_wheel_and_sdist_have_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    assert check_contents(built, beforehand.__version__) == []


def test_the_sdist_alone_builds_the_same_wheel(built: Built) -> None:
    assert check_rebuilt(built) == []


def test_a_file_that_is_missing_from_the_wheel_and_one_too_many_are_found(built: Built, tmp_path: Path) -> None:
    less = tmp_path / built.wheel.name
    with zipfile.ZipFile(built.wheel) as old, zipfile.ZipFile(less, "w") as new:
        for name in old.namelist():
            if not name.endswith(("app.js", "py.typed")):
                new.writestr(name, old.read(name))
        new.writestr("beforehand/strange.py", "")
    assert check_contents(Built(built.sdist, less), beforehand.__version__) == [
        "the wheel lacks beforehand/diagram/page/modules/app.js",
        "the wheel lacks beforehand/py.typed",
        "the wheel has beforehand/strange.py, which src/ has not",
        "the wheel lacks beforehand/py.typed",
    ]


def test_the_page_and_the_mark_of_types_are_part_of_the_package() -> None:
    files = package_files()
    assert {
        "beforehand/py.typed",
        "beforehand/service/page/index.html",
        "beforehand/pipeline/report/page.js",
    } <= files


def test_every_command_is_tried_and_every_extra_is_known() -> None:
    assert {case.command for case in CASES} - {"--version", "--help"} == set(_COMMANDS)
    assert set(extras()) == {extra for extra in extras() if brings(extra) is not None}
    assert set(EXTRAS) == set(extras()) - {BASE, "all"}


def test_a_module_is_advised_with_an_extra_that_brings_it() -> None:
    owners = packages_distributions()
    for extra, modules in EXTRAS.items():
        for module in modules:
            if module != "nats_server":  # A program, not a module.
                there = {name.lower().replace("_", "-") for name in owners[module]}
                assert there & distributions(extra), f"{extra} does not bring {module}"


def test_what_an_extra_is_said_to_have_is_what_it_installs() -> None:
    for extra in extras():
        for other in brings(extra) - {extra}:
            assert distributions(other) <= distributions(extra), f"{extra} has not all of {other}"


@pytest.mark.slow
def test_without_any_extra_the_light_commands_work_and_all_others_say_what_to_install(
    base: Path, tmp_path: Path
) -> None:
    assert ask(base, BASE, tmp_path, heavy=False) == []


@pytest.mark.slow
def test_with_nats_alone_its_commands_work_and_all_others_say_what_to_install(built: Built, tmp_path: Path) -> None:
    python = linked(built.wheel, "nats", tmp_path / "environment")
    assert ask(python, "nats", tmp_path / "work", heavy=False) == []


@pytest.mark.slow
def test_the_installed_package_is_typed(base: Path, tmp_path: Path) -> None:
    assert check_types(base, tmp_path) == []


@pytest.mark.parametrize(
    ("line", "needs", "what"),
    [
        ("simulate fifo", (), "status 2"),  # It should work, and does not.
        ("token list", ("nats",), "not one line that says what to install"),  # It should not, and does.
        ("simulate fifo", ("nats",), "advises to install history, which would not help"),
    ],
)
def test_a_command_that_does_other_than_it_should_is_found(
    base: Path, tmp_path: Path, line: str, needs: tuple[str, ...], what: str
) -> None:
    (problem,) = ask_command(base, Case(line, needs), frozenset(), tmp_path)
    assert what in problem


def test_the_version_stands_in_one_place() -> None:
    found = subprocess.run(
        ["git", "grep", "-lF", f'"{beforehand.__version__}"', "--", "src", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode in (0, 1) and found.stdout:  # There is no git in an sdist.
        assert found.stdout.split() == ["src/beforehand/__init__.py"]
