"""How errors end a command: in one line that does no harm; with BEFOREHAND_DEBUG, some in their stack."""

from __future__ import annotations

import sys

import click
import pytest

from beforehand.cli import command
from beforehand.errors import BeforehandError, InputError


def _ends(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.group()
    def group() -> None:
        raise error

    @group.command()
    def one() -> None:
        pass

    monkeypatch.setattr(command, "beforehand", group)
    monkeypatch.setattr(command, "_hush", lambda: None)
    monkeypatch.setattr(sys, "argv", ["beforehand", "one"])
    command.main()


@pytest.mark.parametrize(
    ("error", "debug", "raised"),
    [
        (BeforehandError("the service did not start"), "", SystemExit),
        (BeforehandError("the service did not start"), "1", BeforehandError),
        (InputError("no such file"), "1", SystemExit),
        (KeyError("x"), "", SystemExit),
        (KeyError("x"), "1", KeyError),
    ],
)
def test_errors_that_are_not_about_the_input_come_with_their_stack_when_debugging(
    error: Exception, debug: str, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEFOREHAND_DEBUG", debug)
    with pytest.raises(raised):
        _ends(error, monkeypatch)


def test_what_an_error_quotes_cannot_move_the_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _ends(InputError("no file \x1b[2J\u202e…"), monkeypatch)
    assert capsys.readouterr().err == "beforehand: no file ␛[2J⟨U+202E⟩…\n"
