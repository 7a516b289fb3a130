"""`beforehand relate`: could one event have caused the other?"""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.completing import events
from beforehand.cli.printing import directory_argument, echo_json, json_option, opened, shown, shown_id

__all__ = ["relate"]

_SENTENCES = {
    "before": "{a} happened before {b}",
    "after": "{a} happened after {b}",
    "concurrent": "{a} and {b} are concurrent: neither could have caused the other",
    "equal": "{a} and {b} are the same event",
}


@click.command()
@directory_argument
@click.argument("first", metavar="EVENT", shell_complete=events)
@click.argument("second", metavar="EVENT", shell_complete=events)
@json_option
def relate(directory: Path, first: str, second: str, as_json: bool) -> None:
    """Say whether the first event is before, after, concurrent with or equal to the second.

    DIR is a history directory, as analyze writes it. An EVENT is an id such as cart:17; find shows them. Where one
    happened before the other, a causal chain shows how: from the earlier event to the later one.

    \b
    Example:
      beforehand relate shop stock:16 orders:17
    """
    history = opened(directory)
    a, b = history.find_id(first), history.find_id(second)
    found = history.relate(a, b)
    if as_json:
        document = {
            "first": str(a),
            "second": str(b),
            "relation": found.relation,
            "chain": [str(event) for event in found.chain],
            "reasons": list(found.reasons),
        }
        echo_json(document)
        return
    click.echo(_SENTENCES[found.relation].format(a=shown_id(a), b=shown_id(b)))
    for reason in found.reasons:
        click.echo(f"   {shown(reason, 500)}")
