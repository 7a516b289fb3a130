"""The `beforehand` command, one file per subcommand."""

from beforehand.cli.command import main

__all__ = ["main"]
