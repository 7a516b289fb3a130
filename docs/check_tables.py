"""Checks that the reference names what the pipeline writes: every column with its type, every key, every option.

A table of a history directory has a section of its own on the page, with a row per column: name, type, meaning. The
rows are those of pipeline/schemas.py, in the same order; a type is written as `type_text` gives it. The keys of
manifest.json and report.json, and the options of every command, must be there too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa

from beforehand.cli.command import beforehand
from beforehand.pipeline import schemas
from beforehand.pipeline.directory import Manifest
from beforehand.pipeline.merging import schemas as merge_schemas
from pages import ROOT, Page, Problem, Section

__all__ = [
    "COMMANDS",
    "DIRECTORY",
    "MERGE",
    "MERGE_TABLES",
    "REPORT",
    "TABLES",
    "check_commands",
    "check_tables",
    "report_keys",
    "type_text",
]

DIRECTORY: Final = "docs/reference/history-directory.md"
REPORT: Final = "docs/reference/report.md"
COMMANDS: Final = "docs/reference/commands.md"
MERGE: Final = "docs/reference/merge-on-spark.md"
SHARED: Final = "What all of them share"

TABLES: Final[Mapping[str, pa.Schema]] = {
    "events/": schemas.STORED,
    "messages/": schemas.MESSAGE_TABLE,
    "rejected/": schemas.REJECTED,
    "violations/": schemas.VIOLATION,
    "cuts/cuts.parquet": schemas.CUT,
    "cuts/NUMBER-BLOCK.parquet": schemas.FRONT,
    "cuts/members.parquet": schemas.MEMBERS,
}
"""Heading of a section → what its table must list."""

MERGE_TABLES: Final[Mapping[str, pa.Schema]] = {
    "OUT/merged/": merge_schemas.MERGED,
    "OUT/aside/": merge_schemas.ASIDE,
}
"""The same of what a merge on Spark writes to a folder."""

_OPTION: Final = re.compile(r"--[a-z][a-z-]*")


def check_tables(pages: Sequence[Page], tables: Mapping[str, pa.Schema] | None = None) -> list[Problem]:
    """Columns of the history directory, keys of its manifest and of the report."""
    page = _named(pages, DIRECTORY)
    if page is None:
        return [Problem(DIRECTORY, 1, "the page is not there", "write it")]
    problems = list(_check_sections(page, TABLES if tables is None else tables))
    if tables is None and (merge := _named(pages, MERGE)) is not None:
        problems += _check_sections(merge, MERGE_TABLES)
    known = {row[0].strip("`") for _, row in _rows(page, "manifest.json")}
    for key in [field.name for field in fields(Manifest)]:
        if key not in known:
            problems.append(Problem(page.name, 1, f"key `{key}` of manifest.json is not listed", "describe it"))
    return [*problems, *_check_report(_named(pages, REPORT))]


def _check_sections(page: Page, tables: Mapping[str, pa.Schema]) -> Iterator[Problem]:
    for title, schema in tables.items():
        section = page.section(title)
        if section is None:
            yield Problem(page.name, 1, f"no heading `{title}`", "give the table a section")
        else:
            yield from _check_columns(section, title, schema)


def check_commands(pages: Sequence[Page], group: click.Group = beforehand) -> list[Problem]:
    """Every command has a section with a usage line, and a row for each option, unless that is among the shared."""
    page = _named(pages, COMMANDS)
    if page is None:
        return [Problem(COMMANDS, 1, "the page is not there", "write it")]
    context = click.Context(group)
    shared = page.section(SHARED)
    told = _options(shared.spans()) if shared else set()
    problems: list[Problem] = []
    every: set[str] = {"--version"}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        params = list(command.get_params(context))
        if isinstance(command, click.Group):
            params += [one for inner in command.commands.values() for one in inner.get_params(context)]
        wanted = [option for one in params for option in one.opts if option.startswith("--")]
        every.update(wanted)
        problems += _check_command(page, name, [option for option in wanted if option not in told])
    return problems + [
        Problem(page.name, 1, f"no command has the option `{option}`", "correct it")
        for option in sorted(_options(page.spans()) - every)
    ]


def _check_command(page: Page, name: str, wanted: Sequence[str]) -> Iterator[Problem]:
    section = page.section(name)
    if section is None:
        yield Problem(page.name, 1, f"command {name} has no section", f"add one with the heading {name}")
        return
    if not any(fence.text.startswith(f"beforehand {name} ") for fence in page.fences):
        yield Problem(page.name, section.line, f"no usage of {name}", f"add a fence: beforehand {name} …")
    listed = _options(row[0] for _, row in section.rows())
    for option in wanted:
        if option not in listed:
            yield Problem(page.name, section.line, f"{name}: `{option}` is not there", "explain it in a row")


def report_keys(source: Path = ROOT / "src" / "beforehand" / "pipeline" / "jobs" / "report.py") -> list[str]:
    """The keys of report.json, from the code that makes it: the dict that is assigned to `report`."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Dict)
            and ast.unparse(node.target) == "report"
        ):
            return list(_keys(node.value))
    return []


def _keys(found: ast.Dict) -> Iterator[str]:
    for key, value in zip(found.keys, found.values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value)
        elif isinstance(value, ast.DictComp):  # **{key: … for key in ("a", "b")}
            yield from ast.literal_eval(value.generators[0].iter)


def type_text(kind: Any) -> str:
    """A type in plain words: `list of string`, `map of string to int64`."""
    if pa.types.is_map(kind):
        return f"map of {type_text(kind.key_type)} to {type_text(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {type_text(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(f'{field.name} {type_text(field.type)}' for field in kind)})"
    return str(kind)


def _check_columns(section: Section, title: str, schema: pa.Schema) -> Iterable[Problem]:
    rows = section.rows()
    found = [row[0].strip("`") for _, row in rows]
    for name in schema.names:
        if name not in found:
            yield Problem(section.page, section.line, f"column `{name}` of {title} is not listed", "describe it")
    for line, row in rows:
        name = row[0].strip("`")
        if name not in schema.names:
            yield Problem(section.page, line, f"{title} has no column `{name}`", "remove it")
            continue
        field = schema.field(name)
        text = type_text(field.type) + (", null" if field.nullable else "")
        if row[1] != text:
            yield Problem(section.page, line, f"the type of `{name}` is not {row[1]!r}", f"write {text!r}")
    if set(found) == set(schema.names) and found != schema.names:
        yield Problem(section.page, section.line, f"the columns of {title} are in another order", "follow the schema")


def _check_report(page: Page | None) -> Iterable[Problem]:
    words = {word for span in page.spans() for word in re.findall(r"\w+", span)} if page else set()
    keys = report_keys()
    assert keys  # Else the code that makes the report has moved.
    for key in keys:
        if key not in words:
            yield Problem(REPORT, 1, f"key `{key}` of report.json is not there", "describe it")


def _named(pages: Sequence[Page], name: str) -> Page | None:
    return next((page for page in pages if page.name == name), None)


def _rows(page: Page, title: str) -> list[tuple[int, list[str]]]:
    section = page.section(title)
    return [] if section is None else section.rows()


def _options(texts: Iterable[str]) -> set[str]:
    return {option for text in texts for option in _OPTION.findall(text)}
