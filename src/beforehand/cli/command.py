"""The command itself: its subcommands, and what becomes of errors.

Exit 0 on success; 1 only where a command says so; 2 on wrong usage or unusable input, with one clear line on standard
error. No traceback reaches a user, unless BEFOREHAND_DEBUG is set. A subcommand is imported only when it is used, so
that none waits for what another needs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from beforehand import __version__
from beforehand.cli.completion import VARIABLE, complete
from beforehand.cli.extras import missing_module
from beforehand.errors import BeforehandError, InputError

__all__ = ["main"]

# Each in the module `beforehand.cli.NAME`, as NAME; with what the list of commands says of it.
_COMMANDS: Final = {
    "analyze": "Put events in causal order and write a history directory.",
    "find": "Find events and their ids, newest first.",
    "explain": "Show the causal past of an event, in order, newest last.",
    "relate": "Say whether an event is before, after or concurrent with another.",
    "order": "Write all events in the deterministic order.",
    "check": "Show violations of order, with witnesses.",
    "cut": "Show a consistent cut and the messages in flight across it.",
    "measure": "Show clock offsets, synchrony and suspected hidden channels.",
    "tune": "Recommend ε and δ for the merger, with what each δ would cost.",
    "draw": "Draw a space-time diagram.",
    "export": "Write events for other programs.",
    "simulate": "Run an ordering protocol in a world with faults and judge it.",
    "experiment": "Measure in the simulator what the papers claim.",
    "merge": "Merge what publishers send into one causal order, on Spark or live.",
    "publish": "Publish lines with stamps on a channel.",
    "subscribe": "Print the merged messages of a channel, in order.",
    "chat": "Talk in a group, in an order of your choice.",
    "serve": "Take reports of events, answer what led to what, and show it on a page.",
    "token": "Make, list and revoke the tokens of a service.",
    "demo": "Explain a failed checkout in a shop of six processes.",
    "completion": "Print a script that makes a shell complete the commands.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            near = get_close_matches(cmd_name, _COMMANDS, n=1)
            if near and not ctx.resilient_parsing:  # A shell that completes wants no error.
                raise click.UsageError(f"No such command '{cmd_name}': did you mean {near[0]}?", ctx)
            return None
        command: click.Command = getattr(import_module(f"beforehand.cli.{cmd_name}"), cmd_name)
        _end_help(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The commands by their list, so that none is loaded for its name; else options, as click has them."""
        found = [CompletionItem(name, help=line) for name, line in _COMMANDS.items() if name.startswith(incomplete)]
        return found or super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="beforehand")
def beforehand() -> None:
    """Put the events of a distributed system in the order in which they could have caused each other."""


def main() -> None:
    """Run the command and exit."""
    if instruction := os.environ.get(VARIABLE):
        sys.exit(complete(beforehand, instruction))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where it is closed.
            stream.reconfigure(errors="replace")  # An arrow that the terminal cannot show is no reason to fail.
    if not os.environ.get("BEFOREHAND_DEBUG"):
        _hush()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored, and that is to stay.
            signal.signal(number, _terminate)
    try:
        # Not `beforehand.main()`: that turns a closed pipe and an EOFError into exits of its own.
        with beforehand.make_context("beforehand", sys.argv[1:]) as context:
            beforehand.invoke(context)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "beforehand"
        sys.exit(_say(f"{error.format_message()} (see '{path} --help')", 2))
    except click.ClickException as error:
        sys.exit(_say(error.format_message(), 2))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_say("interrupted", 130))
    except _TerminatedError as error:
        sys.exit(_say("terminated", 128 + error.number))
    except BrokenPipeError:
        # Whoever read our output has gone. Point it elsewhere, for the interpreter flushes it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except BeforehandError as error:
        if os.environ.get("BEFOREHAND_DEBUG") and not isinstance(error, InputError):
            raise
        sys.exit(_say(str(error), 2))
    except OSError as error:
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(_say(f"{error.strerror or error}{where}", 2))
    except ImportError as error:
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        line = missing_module(error.name or "")
        sys.exit(_say(line or f"a bug in beforehand ({error}): set BEFOREHAND_DEBUG=1 for the details", 2))
    except Exception as error:  # The last door: whatever comes here is a bug of ours.
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        name = type(error).__name__
        sys.exit(_say(f"a bug in beforehand ({name}: {error}): set BEFOREHAND_DEBUG=1 for the details", 2))


def _end_help(command: click.Command) -> None:
    """Every help ends with the exit status; a command with one of its own says so itself."""
    command.epilog = command.epilog or "Exit status: 0 done, 2 wrong usage or unusable input."
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _end_help(inner)


def _hush() -> None:
    """What libraries log and warn of is not for the user of a command, who gets one clear line instead."""
    logging.getLogger().addHandler(logging.NullHandler())
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


class _TerminatedError(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


def _terminate(number: int, frame: object) -> None:  # noqa: ARG001
    """Leave as with Ctrl-C: what is half made is removed, what was started is ended."""
    signal.signal(number, signal.SIG_IGN)  # Once is enough, and a second would disturb that.
    raise _TerminatedError(number)


def _say(text: str, status: int) -> int:
    line = " ".join(text.split())
    if not line.isprintable():  # It quotes what strangers wrote: a name, a line of a log.
        from beforehand.cli.printing import shown

        line = shown(line, len(line))
    with suppress(OSError):  # Nobody can read it; the status still says what happened.
        click.echo(f"beforehand: {line}", err=True)
    return status
