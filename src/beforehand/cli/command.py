"""The command itself: its subcommands, and what becomes of errors.

Exit 0 on success; 2 on wrong usage or unusable input, with one clear line on standard error. No traceback reaches a
user, unless BEFOREHAND_DEBUG is set.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import click

from beforehand import __version__
from beforehand.cli.demo import demo
from beforehand.errors import BeforehandError

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="beforehand")
def beforehand() -> None:
    """Put the events of a distributed system in the order in which they could have caused each other."""


beforehand.add_command(demo)


def main() -> None:
    """Run the command and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where it is closed.
            stream.reconfigure(errors="replace")  # An arrow that the terminal cannot show is no reason to fail.
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
        sys.exit(_say(f"Error: {error.format_message()} (see '{path} --help')", 2))
    except click.ClickException as error:
        sys.exit(_say(f"Error: {error.format_message()}", 2))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_say("interrupted", 130))
    except BrokenPipeError:
        # Whoever read our output has gone. Point it elsewhere, for the interpreter flushes it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except BeforehandError as error:
        sys.exit(_say(str(error), 2))
    except OSError as error:
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(_say(f"{error.strerror or error}{where}", 2))
    except ImportError as error:
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        sys.exit(_say(f"{error.name} is not installed: pip install 'beforehand[history]'", 2))
    except Exception as error:  # The last door: whatever comes here is a bug of ours.
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        name = type(error).__name__
        sys.exit(_say(f"a bug in beforehand ({name}: {error}): set BEFOREHAND_DEBUG=1 for the details", 2))


def _say(text: str, status: int) -> int:
    line = " ".join(text.split())
    click.echo(f"beforehand: {line}", err=True)
    return status
