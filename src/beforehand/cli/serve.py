"""`beforehand serve`: the event reporting service."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path

import click

from beforehand.cli.extras import need
from beforehand.cli.numbers import FiniteRange
from beforehand.cli.printing import json_option

__all__ = ["serve"]

_FILES = 4_096


@click.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file with the events; it is made if it is not there.  [default: beforehand.db]",
)
@click.option(
    "--open", "directory", type=click.Path(path_type=Path), metavar="DIR", help="A history directory instead."
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7171,
    show_default=True,
    help="The port; 0 takes any that is free.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name by which it is called, as by a proxy; may be repeated. Tokens are needed then.",
)
@click.option("--require-token", is_flag=True, help="Ask for tokens on this machine too.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="The certificate (chain), PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key, PEM, without a password.")
@click.option(
    "--deadline",
    type=FiniteRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an event waits for events that it depends on and that were not reported.",
)
@click.option("--power-safe", is_flag=True, help="Wait for the disk before a report is acknowledged.")
@click.option(
    "--keep-days",
    type=FiniteRange(0, 36_500, min_open=True),
    metavar="DAYS",
    help="Remove events that were stored longer ago.  [default: keep all]",
)
@click.option(
    "--keep-events", type=click.IntRange(1), metavar="N", help="Remove the oldest events when there are more."
)
@click.option(
    "--keep-bytes",
    type=click.IntRange(1_000_000),
    metavar="N",
    help="Remove the oldest events when the store needs more bytes.",
)
@click.option(
    "--trace-quiet",
    type=FiniteRange(0, 3_600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="When nothing more of a trace came for so long, its spans become events.",
)
@click.option("--private-webhooks", is_flag=True, help="Let webhooks call private addresses, and this machine.")
@json_option
def serve(
    store: Path | None,
    directory: Path | None,
    host: str,
    port: int,
    allow_hosts: tuple[str, ...],
    require_token: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    deadline: float,
    power_safe: bool,
    keep_days: float | None,
    keep_events: int | None,
    keep_bytes: int | None,
    trace_quiet: float,
    private_webhooks: bool,
    as_json: bool,
) -> None:
    """Take reports of events, answer what led to what, and show it on a page.

    Listens on this machine only, unless told otherwise; elsewhere callers need tokens (see beforehand token).

    \b
    Example:
      beforehand serve --store shop.db
    """
    import json

    need("service", "fastapi", "uvicorn", "numba", "regex")
    if directory is not None:
        need("pipeline", "pyarrow", "duckdb")
    from beforehand.service.otlp import CollectorSettings
    from beforehand.service.retention import RetentionSettings
    from beforehand.service.serving import Options, Service
    from beforehand.service.settings import Settings
    from beforehand.service.subscriptions import DeliverySettings

    if store is not None and directory is not None:
        raise click.UsageError("--store and --open are two things to serve: give one of them")
    if store is None and directory is None:
        store = Path("beforehand.db")
    options = Options(
        store=store,
        directory=directory,
        host=host,
        port=port,
        allow_hosts=allow_hosts,
        require_token=require_token,
        tls_cert=tls_cert,
        tls_key=tls_key,
        settings=Settings(deadline_ns=round(deadline * 1e9), power_safe=power_safe),
        delivery=DeliverySettings(allow_private=private_webhooks),
        collecting=CollectorSettings(quiet_ns=round(trace_quiet * 1e9)),
        retaining=RetentionSettings(
            age_ns=None if keep_days is None else max(round(keep_days * 86_400e9), 1),
            events_max=keep_events,
            bytes_max=keep_bytes,
        ),
    )
    _log_to_stderr()
    _open_more_files()
    with Service(options) as service:
        what = str(store or directory)

        def started() -> None:
            if service.warning is not None:
                click.echo(f"beforehand: warning: {service.warning}", err=True)
            if as_json:
                click.echo(
                    json.dumps({"url": service.url, "serves": what, "tokens_required": service.served.needs_token})
                )
            else:
                click.echo(f"serving {what} at {service.url} (Ctrl-C stops it)")
            sys.stdout.flush()

        service.run(started=started)
    click.echo("beforehand: stopped", err=True)


def _open_more_files() -> None:
    """Many systems let a process open 1,024 files unless it asks for more: fewer than its connections need."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _log_to_stderr() -> None:
    """What a service has to say while it runs goes where its operator looks."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("beforehand", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
        logger.propagate = False
