"""What the commands that talk to a broker share: options, addresses, settings of a merge, their end by a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from beforehand.cli.numbers import FiniteRange
from beforehand.errors import InputError, LocalProtocolError
from beforehand.ordering.merging import MergeSettings

if TYPE_CHECKING:
    from beforehand.runtime import StreamAddress

__all__ = ["broker_options", "is_stream", "merge_options", "merge_settings", "stopping", "stream_address"]

F = TypeVar("F", bound=Callable[..., Any])
TICKS_MAX: Final = 100_000


def broker_options(command: F) -> F:
    """How to be let in."""
    file = click.Path(path_type=Path)
    command = click.option("--tls-ca", type=file, help="A certificate to trust, for tls:// addresses.")(command)
    return click.option("--credentials", type=file, help="A credentials file of NATS (.creds).")(command)


def merge_options(command: F) -> F:
    """What publishers and mergers of a channel must agree on."""
    span = FiniteRange(0, 86_400_000)
    for option in reversed(
        [
            click.option("--epsilon", type=span, required=True, metavar="MS", help="How far clocks may lie apart."),
            click.option("--delta", type=span, required=True, metavar="MS", help="How long a message may take."),
            click.option(
                "--tick",
                type=FiniteRange(0.001, 60_000),
                default=1.0,
                show_default=True,
                metavar="MS",
                help="Clocks are read in ticks of this length.",
            ),
            click.option(
                "--publishers",
                type=click.IntRange(1, 10**6),
                default=1_000,
                show_default=True,
                metavar="N",
                help="At most so many publish.",
            ),
            click.option(
                "--events-per-tick",
                type=click.IntRange(1, 10**6),
                default=1_000,
                show_default=True,
                metavar="K",
                help="At most so many messages per publisher and tick.",
            ),
        ]
    ):
        command = option(command)
    return command


def merge_settings(
    *, epsilon: float, delta: float, tick: float, publishers: int, events_per_tick: int
) -> MergeSettings:
    """From milliseconds; InputError if they do not fit together."""
    if epsilon / tick > TICKS_MAX:
        raise InputError(f"--epsilon is more than {TICKS_MAX:,} ticks, which makes stamps too long: raise --tick")
    try:
        return MergeSettings(
            epsilon_ns=round(epsilon * 1e6),
            delta_ns=round(delta * 1e6),
            tick_ns=round(tick * 1e6),
            publishers=publishers,
            events_per_tick=events_per_tick,
        )
    except LocalProtocolError as error:
        raise InputError(f"--epsilon, --delta and --tick do not fit together: {error}") from None


def is_stream(text: str) -> bool:
    return text.startswith(("nats://", "tls://"))


def stream_address(text: str, option: str) -> StreamAddress:
    """The stream that `text`, given as `option`, names."""
    from beforehand.runtime import StreamAddress

    if not is_stream(text):
        raise InputError(f"{option}: give a stream, as nats://HOST:PORT/STREAM")
    try:
        return StreamAddress.parse(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


@contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C and SIGTERM set, so that what was begun is ended in good order. A second one breaks in."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def heard() -> None:
        stop.set()
        restore()

    for number in numbers:
        loop.add_signal_handler(number, heard)
    try:
        yield stop
    finally:
        restore()
