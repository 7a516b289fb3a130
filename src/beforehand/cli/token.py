"""`beforehand token`: who may call a service that can be reached by others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beforehand.cli.printing import echo_json, echo_table, json_option, shown
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.service.audit import Audit
    from beforehand.service.tokens import Tokens

__all__ = ["token"]

_store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path("beforehand.db"),
    show_default=True,
    metavar="PATH",
    help="The store of the service, or the history directory that it serves.",
)


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of a service. It may run meanwhile.

    Tokens are kept in a file beside the store, PATH-access, as hashes. Each has one scope: report (events in), read
    (questions), or admin (both, and tokens and webhooks).

    \b
    Example:
      beforehand token add cart --scope report --store shop.db
    """


@token.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["report", "read", "admin"]), required=True, help="What it may do.")
@_store_option
@json_option
def add(name: str, scope: str, store: Path, as_json: bool) -> None:
    """Make a token and print it.

    NAME says for whom it is. The token is shown this once: only its hash is kept.

    \b
    Example:
      beforehand token add cart --scope report --store shop.db
    """
    with _opened(store, make=True) as (tokens, audit):
        made, text = tokens.add(name, scope)
        audit.note("command", "token made", f"{made.id} {made.scope} {made.name}")
    if as_json:
        echo_json({"token": text, "id": made.id, "scope": made.scope, "name": made.name})
        return
    click.echo(text)
    click.echo(f"token {made.id} for {shown(name)} with the scope {scope}; it is not shown again", err=True)


@token.command("list")
@_store_option
@json_option
def list_(store: Path, as_json: bool) -> None:
    """List the tokens, without their secrets.

    \b
    Example:
      beforehand token list --store shop.db
    """
    from dataclasses import asdict

    from beforehand.diagram.page.times import rfc3339
    from beforehand.service.tokens import access_path, listed

    tokens = listed(access_path(store))
    if as_json:
        echo_json({"tokens": [asdict(one) for one in tokens]})
        return
    if not tokens:
        click.echo(f"there are no tokens for {store}")
        return
    rows = [
        (
            one.id,
            one.scope,
            rfc3339(one.created)[:19],
            "never used" if one.used is None else f"used {rfc3339(one.used)[:16]}",
            "" if one.revoked is None else f"revoked {rfc3339(one.revoked)[:19]}",
            shown(one.name),
        )
        for one in tokens
    ]
    echo_table(rows, whole=0)


@token.command()
@click.argument("identity", metavar="ID")
@_store_option
@json_option
def revoke(identity: str, store: Path, as_json: bool) -> None:
    """End a token.

    ID is what list shows. A running service knows within about a second.

    \b
    Example:
      beforehand token revoke 3f6c0d2e9a41 --store shop.db
    """
    with _opened(store, make=False) as (tokens, audit):
        ended = tokens.revoke(identity)
        audit.note("command", "token revoked", f"{ended.id} {ended.scope} {ended.name}")
    if as_json:
        echo_json({"id": ended.id, "revoked": ended.revoked})
        return
    click.echo(f"token {ended.id} ({shown(ended.name)}) is revoked")


@contextmanager
def _opened(store: Path, *, make: bool) -> Iterator[tuple[Tokens, Audit]]:
    from contextlib import closing

    from beforehand.service.audit import Audit
    from beforehand.service.tokens import Tokens, access_path

    path = access_path(store)
    if not make and not path.exists():
        raise InputError(f"there are no tokens for {str(store)!r}: name its store with --store")
    with closing(Tokens(path)) as tokens, closing(Audit(path)) as audit:
        yield tokens, audit
