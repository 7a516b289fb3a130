"""What a service consists of: opened in order, closed in the opposite one.

`serve_store` and `serve_directory` give a `Served` whose parts are closed by the stack, and the chores that the
service is to do now and then. What cannot be opened is an `InputError`; then nothing stays open.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from beforehand.service.audit import Audit
from beforehand.service.http.limits import Limits
from beforehand.service.imports import Imports
from beforehand.service.ingest import Ingest
from beforehand.service.otlp import Collector, CollectorSettings
from beforehand.service.queries import Queries
from beforehand.service.retention import Retention, RetentionSettings
from beforehand.service.served import Hosts, Served
from beforehand.service.settings import Settings
from beforehand.service.store import Store
from beforehand.service.subscriptions import Deliverer, DeliverySettings, Subscriptions
from beforehand.service.tokens import Tokens, access_path
from beforehand.service.views import Viewer

__all__ = ["Chore", "serve_directory", "serve_store"]

_EVERY_SECONDS: Final = 1.0
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do every so many seconds."""

    seconds: float
    call: Callable[[], object]
    name: str


def serve_store(
    path: Path,
    stack: ExitStack,
    *,
    hosts: Hosts,
    limits: Limits,
    settings: Settings,
    deliveries: DeliverySettings | None = None,
    collecting: CollectorSettings | None = None,
    retaining: RetentionSettings | None = None,
) -> tuple[Served, list[Chore]]:
    """A store with its writer, its subscriptions and its pictures."""
    from beforehand.service.views.stores import StoreSource

    store = stack.enter_context(Store(path, settings=settings))
    ingest = Ingest(store)
    tokens, audit = _access(path, stack)
    collector = Collector(store, ingest, settings=collecting)
    retention = Retention(store, ingest, settings=retaining or RetentionSettings())
    subscriptions = Subscriptions(store)
    deliverer = Deliverer(store, subscriptions, settings=deliveries)
    stack.callback(deliverer.close)
    deliverer.start()
    views = _opened(Viewer(StoreSource(store)), stack)
    imports = _imports(stack)
    served = Served(
        store=store,
        ingest=ingest,
        queries=Queries(store),
        views=views,
        imports=imports,
        subscriptions=subscriptions,
        collector=collector,
        tokens=tokens,
        audit=audit,
        hosts=hosts,
        limits=limits,
    )
    return served, [
        Chore(_EVERY_SECONDS, collector.settle, "closing traces"),
        Chore(_EVERY_SECONDS, partial(ingest.settle, stopping=served.stopping.is_set), "settling the store"),
        Chore(_EVERY_SECONDS, retention.run, "removing old events"),
        Chore(_EVERY_SECONDS, tokens.refresh, "reading the tokens"),
        Chore(_MINUTE, imports.forget_old, "forgetting imports"),
    ]


def serve_directory(path: Path, stack: ExitStack, *, hosts: Hosts, limits: Limits) -> tuple[Served, list[Chore]]:
    """A history directory: questions and pictures only."""
    from beforehand.service.opened import open_history
    from beforehand.service.views.directories import DrawnDirectory
    from beforehand.service.views.frozen_source import FrozenSource

    directory = open_history(path)
    tokens, audit = _access(path, stack)
    imports = _imports(stack)
    served = Served(
        queries=directory.queries,
        views=_opened(Viewer(FrozenSource("directory", directory.queries, DrawnDirectory(directory))), stack),
        imports=imports,
        tokens=tokens,
        audit=audit,
        hosts=hosts,
        limits=limits,
    )
    return served, [
        Chore(_EVERY_SECONDS, tokens.refresh, "reading the tokens"),
        Chore(_MINUTE, imports.forget_old, "forgetting imports"),
    ]


def _opened(views: Viewer, stack: ExitStack) -> Viewer:
    """Closed by the stack; it begins to read at once."""
    stack.callback(views.close)
    views.warm()
    return views


def _imports(stack: ExitStack) -> Imports:
    imports = Imports()
    stack.callback(imports.close)
    return imports


def _access(path: Path, stack: ExitStack) -> tuple[Tokens, Audit]:
    tokens = Tokens(access_path(path))
    stack.callback(tokens.close)
    audit = Audit(access_path(path))
    stack.callback(audit.close)
    return tokens, audit
