"""From what a caller names to a target: a URL, a path, a function, or a target as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from beforehand.errors import InputError
from beforehand.reporting.file_target import FileTarget
from beforehand.reporting.http_target import HttpTarget
from beforehand.reporting.settings import Retries
from beforehand.reporting.targets import CallableTarget, Target

__all__ = ["target_of"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?=//)")


def target_of(
    target: str | os.PathLike[str] | Target | Callable[[Sequence[bytes]], object],
    *,
    token: str | None = None,
    retries: Retries,
) -> Target:
    """`http:` and `https:` are a service; `file:` and everything without `//` is a path."""
    if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        return HttpTarget(target, token=token, unauthorised=retries.unauthorised)
    if token is not None:
        raise InputError("token: only a target given as http:// or https:// takes one")
    if isinstance(target, str | os.PathLike):
        return FileTarget(_path(target))
    if isinstance(target, Target):
        return target
    if callable(target):
        return CallableTarget(target)
    raise InputError(f"target is {type(target).__name__}: give a URL, a path, a function of lines or a Target")


def _path(target: str | os.PathLike[str]) -> str:
    text = os.fspath(target)
    if not isinstance(target, str) or not text.lower().startswith("file:"):
        if isinstance(target, str) and (scheme := _SCHEME.match(text)):
            raise InputError(f"target {text[:80]!r}: {scheme.group()[:-1]} is not known; http, https, file or a path")
        return text
    rest = text[len("file:") :]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InputError(f"target {text[:80]!r} names a file of {host!r}: only files of this machine")
        rest = slash + path
    return unquote(rest)
