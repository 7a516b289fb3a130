"""Checks that the reference names what programs meet: routes, parameters, JSON keys, protocols, clocks, variables.

The code is asked, not read, where it can be asked: the routes and their parameters come from the OpenAPI document
that the service gives, the protocols and clocks from their rooms. The keys of `--json` are those of the dictionaries
that the commands print.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

import beforehand.clocks
from beforehand.cli.command import beforehand as command_group
from beforehand.ordering import PROTOCOLS
from pages import ROOT, Page, Problem, Section

__all__ = [
    "benchmark_parts",
    "check_interfaces",
    "check_keys",
    "check_make",
    "check_named",
    "check_routes",
    "check_usage",
    "check_variables",
    "openapi",
    "printed_keys",
    "variables_in",
]

HTTP: Final = "docs/reference/http.md"
VIEWS: Final = "docs/reference/views.md"
COMMANDS: Final = "docs/reference/commands.md"
_HTTP_PAGES: Final = (
    HTTP,
    VIEWS,
    "docs/reference/subscriptions.md",
    "docs/reference/reporting.md",
    "docs/reference/events.md",
    "docs/reference/service.md",
    COMMANDS,
)
_ROUTE: Final = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /\S*")
_WORD: Final = re.compile(r"\w+")
_OPTION: Final = re.compile(r"--[a-z][a-z-]*")
_VARIABLE: Final = re.compile(r"\b_?BEFOREHAND_[A-Z_]+\b")
_MAKE: Final = re.compile(r"^make ([a-z][a-z0-9-]*)")
_PAGE_ROUTES: Final = {"GET /", "GET /page/{name}"}  # Files for browsers, which OpenAPI leaves out.
_FRAMEWORK: Final = ("HTTPValidationError", "ValidationError")  # FastAPI's own, which no route of ours answers with.


def check_interfaces(pages: Sequence[Page]) -> list[Problem]:
    return [
        *check_routes(pages, openapi()),
        *check_usage(pages),
        *check_keys(pages),
        *check_named(pages),
        *check_variables(pages, ROOT / "src"),
        *check_make(pages, (ROOT / "Makefile").read_text(encoding="utf-8"), benchmark_parts()),
    ]


def openapi() -> dict[str, Any]:
    """What the service says of itself."""
    from beforehand.service.serving import Options, Service

    with (
        tempfile.TemporaryDirectory() as folder,
        Service(Options(store=Path(folder) / "store.db", port=0)) as service,
    ):
        return dict(service.app.openapi())


def check_routes(pages: Sequence[Page], document: Mapping[str, Any]) -> Iterator[Problem]:
    """Every route is on the page of the interface, with every parameter, and no other; every key of an answer too."""
    found = {page.name: page for page in pages if page.name in _HTTP_PAGES}
    http, views = found[HTTP], found[VIEWS]
    named = {span for span in http.spans() if _ROUTE.fullmatch(span)}
    known = {
        f"{verb.upper()} {path}": operation
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    }
    for route in sorted(known.keys() - named):
        yield Problem(HTTP, 1, f"route `{route}` is not listed", "add a row for it")
    for route in sorted(named - known.keys() - _PAGE_ROUTES):
        yield Problem(HTTP, 1, f"there is no route `{route}`", "correct it")
    shared = _shared(http) | _shared(views)
    for route, operation in known.items():
        near = shared | _words(line for line in http.prose.split("\n") if f"`{route}`" in line)
        if (section := views.section(route)) is not None:
            near |= _words(section.lines)
        for parameter in operation.get("parameters", ()):
            if parameter["name"] not in near:
                yield Problem(HTTP, 1, f"{route}: parameter `{parameter['name']}` is not there", "explain it")
    words = {word for page in found.values() for span in page.spans() for word in _WORD.findall(span)}
    for key in sorted(_schema_keys(document) - words):
        yield Problem(HTTP, 1, f"key `{key}` of an answer is not there", "explain it on one of the HTTP pages")


def check_usage(pages: Sequence[Page]) -> Iterator[Problem]:
    """The usage of a command has all of its options, and no others."""
    page = next(page for page in pages if page.name == COMMANDS)
    context = click.Context(command_group)
    for name in command_group.list_commands(context):
        command = command_group.get_command(context, name)
        inner = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        wanted = {
            option
            for one in inner
            if one is not None
            for param in one.params
            for option in param.opts
            if option.startswith("--")
        }
        fences = [
            fence
            for fence in page.fences
            if fence.language == "usage" and fence.text.startswith(f"beforehand {name}")
        ]
        shown = {option for fence in fences for option in _OPTION.findall(fence.text)}
        line = fences[0].line if fences else 1
        for option in sorted(wanted - shown):
            yield Problem(COMMANDS, line, f"the usage of {name} lacks {option}", "add it")
        for option in sorted(shown - wanted):
            yield Problem(COMMANDS, line, f"the usage of {name} has {option}, which is no option of it", "remove it")


def check_keys(pages: Sequence[Page], source: Path = ROOT / "src" / "beforehand" / "cli") -> Iterator[Problem]:
    """Every key that a command prints with `--json` stands in its section."""
    page = next(page for page in pages if page.name == COMMANDS)
    for name in command_group.list_commands(click.Context(command_group)):
        section = page.section(name)
        words = _words(section.lines) if section is not None else set()
        for key in printed_keys(source / f"{name}.py"):
            if key not in words:
                yield Problem(
                    COMMANDS, section.line if section else 1, f"{name}: key `{key}` is not there", "explain it"
                )


def printed_keys(path: Path) -> list[str]:
    """Keys of what is given to `echo_json`, at their outermost level: of a dictionary there, or of `document`."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "echo_json":
            found.append(node.args[0])
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "document":
            found.append(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name == "_document":
            found += [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
    keys = [key for value in found if isinstance(value, ast.Dict) for key in value.keys]
    return [str(key.value) for key in keys if isinstance(key, ast.Constant)]


def check_named(pages: Sequence[Page], protocols: Iterable[str] = tuple(PROTOCOLS)) -> Iterator[Problem]:
    """Every protocol has its page, named as it is; every clock a heading; both are linked from their list."""
    by_name = {page.name: page for page in pages}
    listing = by_name["docs/reference/ordering/README.md"]
    linked = {link.target.partition("#")[0] for link in listing.links()}
    for protocol in protocols:
        if f"docs/reference/ordering/{protocol}.md" not in by_name:
            yield Problem(listing.name, 1, f"protocol {protocol} has no page", f"write ordering/{protocol}.md")
        elif f"{protocol}.md" not in linked:
            yield Problem(listing.name, 1, f"protocol {protocol} is not linked", "add it to the list")
    clocks = by_name["docs/reference/clocks/README.md"]
    for name in beforehand.clocks.__all__:
        if name.endswith("Clock") and name not in _words(clocks.prose.split("\n")):
            yield Problem(clocks.name, 1, f"clock `{name}` is not in the list", "add it")
        if name.endswith("Clock") and not any(
            page.titled(name) for page in pages if page.name.startswith("docs/reference/clocks/")
        ):
            yield Problem(clocks.name, 1, f"clock `{name}` has no section", "give it a heading")


def check_variables(pages: Sequence[Page], source: Path) -> Iterator[Problem]:
    """Every variable of the environment that is looked at is explained somewhere."""
    named = {word for page in pages for span in page.spans() for word in _VARIABLE.findall(span)}
    for variable in sorted(variables_in(source) - named):
        yield Problem("docs/reference/commands.md", 1, f"variable {variable} is not there", "explain it")


def variables_in(source: Path) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py")))
    return {variable for text in texts for variable in re.findall(r"environ[^\n]*?\"(BEFOREHAND_[A-Z_]+)\"", text)}


def benchmark_parts() -> list[str]:
    """What may stand after `make bench-`."""
    text = (ROOT / "benchmarks" / "parts.py").read_text(encoding="utf-8")
    return re.findall(r"\bname=\"([a-z0-9-]+)\"", text)


def check_make(pages: Sequence[Page], makefile: str, parts: Sequence[str] = ()) -> Iterator[Problem]:
    """Every `make TARGET` on a page is a target; `parts` are what a `%` stands for."""
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    patterns = re.findall(r"^([a-z][a-z0-9-]*)%:", makefile, re.MULTILINE)
    targets.update(f"{stem}{part}" for stem in patterns for part in parts)
    for page in pages:
        for span in sorted(page.spans()):
            if (match := _MAKE.match(span)) and match.group(1) not in targets:
                yield Problem(page.name, 1, f"there is no `make {match.group(1)}`", "correct it")


def _shared(page: Page) -> set[str]:
    """What is said before any table, for all rows or sections that follow: the prose of the page that is no row."""
    return _words(line for line in page.prose.split("\n") if not line.startswith("|"))


def _words(lines: Iterable[str]) -> set[str]:
    spans = (span for line in lines for span in Section("", 0, (line,)).spans())
    return {word for span in spans for word in _WORD.findall(span)}


def _schema_keys(document: Mapping[str, Any]) -> set[str]:
    """Names of all properties of all answers and bodies."""
    found: set[str] = set()
    todo: list[Any] = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            properties = value.get("properties")
            if isinstance(properties, dict):
                found |= properties.keys()
            todo += [one for key, one in value.items() if key not in _FRAMEWORK]
        elif isinstance(value, list):
            todo += value
    return found
