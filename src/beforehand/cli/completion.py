"""`beforehand completion`: what makes a shell complete the commands, their options and many of their values."""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

__all__ = ["VARIABLE", "complete", "completion"]

VARIABLE: Final = "_BEFOREHAND_COMPLETE"
"""The shell asks by running `beforehand` with this in its environment."""

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete the commands.

    SHELL is bash (4.4 or newer), zsh or fish. The tab key then completes commands, options and their values; names of
    protocols and experiments; and of a history directory its processes and the events that failed.

    \b
    Examples:
      eval "$(beforehand completion bash)"                  in ~/.bashrc
      eval "$(beforehand completion zsh)"                   in ~/.zshrc, after compinit
      beforehand completion fish > ~/.config/fish/completions/beforehand.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    made = found(root, {}, "beforehand", VARIABLE)
    # Not `made.source()`: for bash it starts one to see its version, and this is not always where the script is used.
    click.echo(made.source_template % made.source_vars())


class _Bash(BashComplete):
    """Bash parts words at colons, as in `orders:17`: they are put together, and it gets what is after the last."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        joined: list[str] = []
        for word in (*args, incomplete):
            if joined and (word == ":" or joined[-1].endswith(":")) and word != joined[-1]:
                joined[-1] += word
            else:
                joined.append(word)
        self._before = joined[-1].rpartition(":")[0]
        return joined[:-1], joined[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        value = str(item.value)
        return f"{item.type},{value.removeprefix(self._before + ':') if self._before else value}"


def complete(group: click.Group, instruction: str) -> int:
    """Answer a shell; 0 if it asked for something that we know. Never raises: it would be shown amid a line."""
    add_completion_class(_Bash)
    try:
        return shell_complete(group, {}, "beforehand", VARIABLE, instruction)
    except Exception:  # noqa: BLE001 (nothing to offer is all that a shell can be told)
        return 1
