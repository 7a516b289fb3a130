"""No option takes `nan`, and none `inf`: what comes of them is nobody's wish."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from beforehand.cli.command import beforehand
from beforehand.cli.numbers import FiniteRange


def _commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from _commands(command)


def test_every_option_that_takes_a_float_takes_finite_ones_only() -> None:
    floats = [
        (command.name, param.name, param.type)
        for command in _commands(beforehand)
        for param in command.params
        if isinstance(param.type, click.types.FloatParamType)
    ]
    assert len(floats) > 15
    assert [found for found in floats if not isinstance(found[2], FiniteRange)] == []


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999"])
def test_a_number_that_is_not_finite_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a finite number|is not in the range"):
        FiniteRange(0).convert(text, None, None)


def test_what_lies_in_the_range_is_taken() -> None:
    assert FiniteRange(0, 1).convert("0.25", None, None) == 0.25
    with pytest.raises(click.BadParameter, match="is not in the range"):
        FiniteRange(0, 1).convert("1.5", None, None)
