"""Every command explains itself: a sentence, its arguments and options, an example, its exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from beforehand.cli.command import beforehand

HEAVY = ("pyspark", "pyarrow", "numba", "numpy", "pandas", "duckdb", "fastapi", "uvicorn", "nats", "grpc", "httpx")


def commands(group: click.Group = beforehand, name: str = "beforehand") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield f"{name} {each}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")


ALL = dict(commands())


@pytest.fixture(params=ALL)
def named(request: pytest.FixtureRequest) -> tuple[str, click.Command]:
    return request.param, ALL[request.param]


def help_of(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, help_option_names=["-h", "--help"])
    return command.get_help(context)


def test_the_first_line_of_a_help_is_one_sentence(named: tuple[str, click.Command]) -> None:
    first = (named[1].help or "").split("\n\n")[0]
    assert re.fullmatch(r"[A-Z][^\n]*\.", first), first


def test_every_argument_of_a_command_is_explained_in_its_help(named: tuple[str, click.Command]) -> None:
    context = click.Context(named[1])
    for argument in named[1].params:
        if isinstance(argument, click.Argument):
            name = re.sub(r"[\[\].]", "", argument.make_metavar(context)).strip()
            for word in name.split("|") if argument.metavar else [(argument.name or "").upper()]:
                assert re.search(rf"\b{word}\b", named[1].help or ""), f"{named[0]}: {word} is not explained"


def test_every_option_of_a_command_has_a_help(named: tuple[str, click.Command]) -> None:
    for option in named[1].params:
        if isinstance(option, click.Option):
            assert option.help, f"{named[0]}: {option.opts[0]}"
            assert option.help.endswith((".", "]", "…", "STREAM")), f"{named[0]}: {option.opts[0]}"


def test_every_help_has_an_example_that_names_only_options_that_there_are(named: tuple[str, click.Command]) -> None:
    name, command = named
    text = command.help or ""
    assert re.search(r"\n\s*Examples?\b[^\n]*:\n", text), name
    examples = text[re.search(r"\n\s*Examples?\b[^\n]*:\n", text).end() :]  # type: ignore[union-attr]
    assert name in examples
    known = {option for one in ALL.values() for param in one.params for option in param.opts}
    assert set(re.findall(r"--[a-z][a-z-]*", examples)) <= known


def test_every_help_ends_with_the_exit_status(named: tuple[str, click.Command]) -> None:
    last = " ".join(help_of(*named).split("\n\n")[-1].split())
    assert re.fullmatch(r"Exit status: 0 .*, 2 wrong usage or unusable input(, or what [^.]*)?\.", last)


@pytest.mark.parametrize("name", ["check", "simulate"])
def test_commands_that_judge_say_what_status_1_means(name: str) -> None:
    assert " 1 " in (ALL[f"beforehand {name}"].epilog or "")


def test_no_help_waits_for_a_heavy_package() -> None:
    code = (
        "import sys\n"
        "from beforehand.cli.command import beforehand, _COMMANDS\n"
        "import click\n"
        "for name in _COMMANDS:\n"
        "    beforehand.get_command(click.Context(beforehand), name).get_help(click.Context(beforehand))\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
