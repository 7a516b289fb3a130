"""`beforehand simulate`: a protocol in a world with faults, and the verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from beforehand.cli.completing import protocols
from beforehand.cli.extras import need
from beforehand.cli.numbers import FiniteRange
from beforehand.cli.outputs import refuse_clashes
from beforehand.cli.printing import echo_json, json_option, shown
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.sim import Outcome, Scenario

__all__ = ["simulate"]

_LOADS = ["even", "burst", "single", "answers", "skewed"]
_DELAYS = ["constant", "uniform", "exponential"]
_BESIDE_REPLAY = {"replay", "save", "target", "picture", "as_json"}


@click.command(
    epilog="Exit status: 0 promises kept, 1 one broken or a message lost, 2 wrong usage or unusable input."
)
@click.argument("protocol", required=False, shell_complete=protocols)
@click.option("--processes", type=click.IntRange(2, 64), default=5, show_default=True, help="How many take part.")
@click.option("--messages", type=click.IntRange(0, 100_000), default=50, show_default=True, help="How many are sent.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything that is left to chance.")
@click.option("--load", type=click.Choice(_LOADS), default="even", show_default=True, help="When who sends.")
@click.option("--delay", type=click.Choice(_DELAYS), default="uniform", show_default=True, help="Of packets.")
@click.option("--delay-ms-max", type=FiniteRange(0.001, 60_000), default=1.0, show_default=True, help="The longest.")
@click.option("--loss", type=FiniteRange(0, 0.9), default=0.0, help="The share of packets that are lost.")
@click.option("--repeat", type=FiniteRange(0, 0.9), default=0.0, help="The share that arrive twice.")
@click.option("--partitions", type=click.IntRange(0, 100), default=0, help="How often the network is cut in two.")
@click.option("--crashes", type=click.IntRange(0, 100), default=0, help="Processes that die and come back.")
@click.option("--leave", type=click.IntRange(0, 30), default=0, help="Members that leave.")
@click.option("--evict", type=click.IntRange(0, 30), default=0, help="Members that stop for good and are evicted.")
@click.option("--join", type=click.IntRange(0, 30), default=0, help="Processes that join, or return by a new name.")
@click.option("--skew-ms", type=FiniteRange(0, 1e9), default=0.0, help="Clocks are off by up to this much.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the protocol.")
@click.option("--replay", type=click.Path(path_type=Path), help="Run the scenario of a file instead.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the scenario to a file that --replay reads.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="Write the run as native events.")
@click.option("--draw", "picture", type=click.Path(path_type=Path), help="Draw the run: a file, .html or .svg.")
@json_option
def simulate(protocol: str | None, replay: Path | None, as_json: bool, **asked: Any) -> None:
    """Run PROTOCOL in a simulated network and judge what it delivered.

    One seed decides everything: the same command gives the same run. The verdict comes from the recorded events
    alone. Without PROTOCOL: a list of them.

    \b
    Examples:
      beforehand simulate skeen --loss 0.2 --crashes 2
      beforehand simulate fifo --load answers --draw run.svg
    """
    need("history", "numpy", "numba")
    from beforehand.sim import read_scenario
    from beforehand.sim import simulate as run

    if (protocol is None) == (replay is None):
        if protocol is not None:
            raise click.UsageError("--replay goes without PROTOCOL: the file says which")
        _list_protocols(as_json)
        return
    if replay is not None:
        _refuse_beside_replay()
    picture: Path | None = asked["picture"]
    if picture is not None and picture.suffix.lower() not in (".html", ".svg"):
        raise click.UsageError(f"--draw {picture} must end in .html or .svg")
    refuse_clashes(
        {"--save": asked["save"], "--to": asked["target"], "--draw": picture}, inputs={"what --replay reads": replay}
    )
    scenario = read_scenario(replay) if replay is not None else _composed(str(protocol), asked)
    outcome = run(scenario)
    _write(outcome, asked)
    if as_json:
        echo_json(_document(outcome))
    else:
        _print(outcome)
    if not outcome.verdict.passed:
        sys.exit(1)


def _refuse_beside_replay() -> None:
    """What a scenario decides cannot be asked for beside it."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name not in _BESIDE_REPLAY:
            raise click.UsageError(f"{option.opts[-1]} goes without --replay: the file decides that")


def _composed(protocol: str, asked: dict[str, Any]) -> Scenario:
    from beforehand.sim.composing import Load, Wishes, compose
    from beforehand.sim.scenario import MILLISECOND, Delay, DelayKind

    longest = int(asked["delay_ms_max"] * MILLISECOND)
    wishes = Wishes(
        processes=asked["processes"],
        messages=asked["messages"],
        seed=asked["seed"],
        load=Load(asked["load"]),
        delay=Delay(kind=DelayKind(asked["delay"]), shortest=longest // 10, longest=longest),
        loss=asked["loss"],
        repeat=asked["repeat"],
        partitions=asked["partitions"],
        crashes=asked["crashes"],
        skew=int(asked["skew_ms"] * MILLISECOND),
        leave=asked["leave"],
        evict=asked["evict"],
        join=asked["join"],
    )
    return compose(protocol, wishes, dict(_option(text) for text in asked["options"]))


def _option(text: str) -> tuple[str, int | str | bool]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--option {text}: it is written NAME=VALUE")
    name = name.replace("-", "_")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, int(value)
    except ValueError:
        return name, value


def _list_protocols(as_json: bool) -> None:
    from beforehand.cli.printing import echo_table
    from beforehand.ordering import PROTOCOLS

    traits = [protocol.traits for protocol in PROTOCOLS.values()]
    if as_json:
        echo_json(
            {"protocols": [{"name": t.name, "fifo": t.fifo, "causal": t.causal, "total": t.total} for t in traits]}
        )
        return
    yes = {True: "yes", False: "-"}
    rows = [[t.name, yes[t.fifo], yes[t.causal], yes[t.total], str(t.destinations), t.paper] for t in traits]
    echo_table(rows, ["protocol", "fifo", "causal", "total", "to", "source"], whole=0)


def _write(outcome: Outcome, asked: dict[str, Any]) -> None:
    from beforehand.formats import replacing, write_events
    from beforehand.sim import write_scenario

    if asked["save"] is not None:
        with replacing(asked["save"]) as stream:
            stream.write(write_scenario(outcome.scenario))
    if asked["target"] is not None:
        with replacing(asked["target"]) as stream:
            write_events(outcome.record.events, stream)
    picture: Path | None = asked["picture"]
    if picture is None:
        return
    from beforehand.diagram import diagram_page, draw

    title = f"{outcome.scenario.protocol}, seed {outcome.scenario.seed}"
    make = draw if picture.suffix.lower() == ".svg" else diagram_page
    text = make(outcome.record.events, title=title)
    with replacing(picture) as stream:
        stream.write(text.encode())


def _document(outcome: Outcome) -> dict[str, Any]:
    record, scenario = outcome.record, outcome.scenario
    longest = scenario.delay.longest
    latencies = record.latencies
    return {
        "protocol": scenario.protocol,
        "seed": scenario.seed,
        "processes": len(scenario.processes),
        "messages": len(record.sent),
        "deliveries": sum(map(len, record.delivered.values())),
        "packets": dict(sorted(record.packets_single.items())),
        "guarantees": outcome.verdict.kept,
        "latency": {
            "mean": sum(latencies) / len(latencies) / longest if latencies else None,
            "max": max(latencies) / longest if latencies else None,
        },
        "set_aside": len(record.discarded),
        "crashes": record.crashes,
        "departed": sorted(record.departed),
        "joined": sorted(name for name in scenario.newcomers if name in record.views),
        "broken": list(outcome.verdict.failures),
    }


def _print(outcome: Outcome) -> None:
    from beforehand.sim.stack import traits_of

    document, record = _document(outcome), outcome.record
    traits = traits_of(outcome.scenario)
    promised = {"fifo": traits.fifo, "causal": traits.causal, "total": traits.total}
    click.echo(
        f"{document['protocol']}, seed {document['seed']}: {document['processes']} processes, "
        f"{document['messages']} messages, {document['deliveries']} deliveries"
    )
    for kind, kept in outcome.verdict.kept.items():
        word = "promised" if promised[kind] else "not promised"
        click.echo(f"  {kind:7} {'kept' if kept else 'BROKEN':7} ({word})")
    latency = document["latency"]
    if latency["mean"] is not None:
        click.echo(f"  latency: mean {latency['mean']:.2f}, max {latency['max']:.2f} times the longest link delay")
    click.echo("  packets: " + (", ".join(f"{n} {kind}" for kind, n in document["packets"].items()) or "none"))
    extra = {
        "crashes": record.crashes,
        "left or evicted": len(record.departed),
        "joined": len(document["joined"]),
        "set aside": len(record.discarded),
    }
    if any(extra.values()):
        click.echo("  " + ", ".join(f"{what}: {n}" for what, n in extra.items() if n))
    for failure in outcome.verdict.failures:
        click.echo(f"  FAILED {shown(failure)}")
