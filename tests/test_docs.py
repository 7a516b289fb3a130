"""The docs say what is true: pictures, links, examples and names are checked, and the checks can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import build  # noqa: E402 (docs/ is no package: its modules are found by the line above)
import check_examples  # noqa: E402
import check_interfaces  # noqa: E402
import check_links  # noqa: E402
import check_names  # noqa: E402
import check_security  # noqa: E402
import check_shell  # noqa: E402
import check_tables  # noqa: E402
import check_words  # noqa: E402
import pages  # noqa: E402
import pictures  # noqa: E402

PAGES = pages.pages_of(ROOT)
SHELL = [pytest.mark.slow, pytest.mark.timeout(3_600)]  # They start Spark.


def shown(problems: list[pages.Problem]) -> str:
    return "\n".join(map(str, problems))


def page(folder: Path, text: str, name: str = "docs/page.md") -> pages.Page:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return pages.read_page(path, folder)


# The pages of this project.


def test_every_picture_is_the_one_that_would_be_drawn() -> None:
    assert shown(build.check_drawn()) == ""


def test_every_picture_is_shown_and_every_shown_one_is_drawn() -> None:
    assert shown(check_links.check_pictures_shown(PAGES, pictures.PICTURES, build.FOLDER, ROOT)) == ""


def test_every_link_and_anchor_leads_somewhere() -> None:
    assert shown(check_links.check_links(PAGES, ROOT)) == ""


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(page, id=page.name, marks=SHELL if check_shell.shell_fences(page) else [])
        for page in PAGES
        if any(check_shell.is_run(fence.language) for fence in page.fences)
    ],
)
def test_every_example_runs(one: pages.Page) -> None:
    assert shown(check_examples.check_examples([one], shell=True)) == ""
    if check_shell.shell_fences(one) and (lacking := check_shell.missing_tools(one)):
        pytest.skip(f"its examples for the shell need {', '.join(lacking)}, not on this machine")


def test_an_example_for_the_shell_needs_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = page(tmp_path, "```console\n$ false | jq .\n```\n")
    assert check_examples.check_examples([one], shell=True) != []
    monkeypatch.setattr("shutil.which", lambda tool: None if tool == "jq" else f"/bin/{tool}")
    assert check_shell.missing_tools(one) == ["jq"]
    assert check_examples.check_examples([one], shell=True) == []


def test_every_fence_says_what_it_is_and_why_it_is_not_run() -> None:
    assert shown(list(check_shell.check_fences(PAGES))) == ""


def test_every_route_parameter_key_protocol_clock_and_variable_is_in_the_reference() -> None:
    assert shown(check_interfaces.check_interfaces(PAGES)) == ""


def test_every_public_name_is_in_the_reference() -> None:
    assert shown(check_names.check_names(PAGES)) == ""


def test_every_reason_of_a_rejection_is_in_the_reference() -> None:
    assert shown(check_names.check_reasons(PAGES, ROOT / "src")) == ""


def test_every_column_and_key_that_the_pipeline_writes_is_in_the_reference() -> None:
    assert shown(check_tables.check_tables(PAGES)) == ""


def test_every_command_and_option_is_in_the_reference() -> None:
    assert shown(check_tables.check_commands(PAGES)) == ""


def test_every_option_and_key_that_several_commands_share_is_among_the_words() -> None:
    assert list(check_words.check_words(PAGES)) == []


def test_every_listener_reader_fuzz_target_and_bound_is_in_the_threat_model() -> None:
    assert shown(check_security.check_security(PAGES)) == ""


def test_every_room_with_public_names_has_a_reference() -> None:
    source = ROOT / "src" / "beforehand"
    found = (path for path in source.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("_"))
    rooms = {f"beforehand.{path.stem}" for path in found}
    assert rooms - {"beforehand.cli"} == set(check_names.ROOMS)  # The command has options, not names.


# The checks themselves: each can fail, and says where, what and what to do.


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    one = page(tmp_path, "# Title\n\nSee\n[there](missing.md).\n")
    assert shown(check_links.check_links([one], tmp_path)) == (
        "docs/page.md:4: link missing.md points to nothing: correct the path"
    )


def test_a_link_out_of_the_project_is_found(tmp_path: Path) -> None:
    one = page(tmp_path, "[up](../../other.md)\n")
    assert "leaves the project" in shown(check_links.check_links([one], tmp_path))


def test_an_anchor_without_heading_is_found(tmp_path: Path) -> None:
    other = page(tmp_path, "## Two words, `code`\n\n## Twice\n\n## Twice\n", "docs/other.md")
    good = page(tmp_path, "[a](other.md#two-words-code) [b](other.md#twice-1)\n")
    bad = page(tmp_path, "[a](other.md#three)\n", "docs/bad.md")
    assert check_links.check_links([other, good], tmp_path) == []
    (problem,) = check_links.check_links([bad], tmp_path)
    assert (problem.line, problem.what) == (1, "link other.md#three: no heading has the anchor #three")


@pytest.mark.parametrize(
    "text",
    ["`[no](link.md)`\n", "```\n[no](link.md)\n```\n", "[web](https://example.org/x#y) <https://example.org>\n"],
)
def test_code_and_addresses_on_the_web_are_not_followed(tmp_path: Path, text: str) -> None:
    assert check_links.check_links([page(tmp_path, text)], tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ['<img src="gone.svg" alt="x">\n', "[x]: gone.svg\n", "[![x](gone.svg)](https://example.org)\n"],
)
def test_links_in_html_in_definitions_and_around_pictures_are_followed(tmp_path: Path, text: str) -> None:
    assert "gone.svg points to nothing" in shown(check_links.check_links([page(tmp_path, text)], tmp_path))


def test_a_picture_without_a_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.svg").write_text("<svg/>")
    one = page(tmp_path, "![](a.svg)\n")
    assert "has no text: say in its alt text" in shown(check_links.check_links([one], tmp_path))


def test_a_picture_that_is_not_drawn_or_not_shown_is_found(tmp_path: Path) -> None:
    one = page(tmp_path, "![x](pictures/strange.svg)\n")
    problems = check_links.check_pictures_shown([one], ["ours.svg"], tmp_path / "docs" / "pictures", tmp_path)
    assert [problem.what for problem in problems] == [
        "no page shows this picture",
        "picture strange.svg is not one that we draw",
    ]


def test_an_undrawn_a_changed_and_a_foreign_picture_are_found(tmp_path: Path) -> None:
    drawings = {"a.svg": lambda: "<svg>a</svg>", "b.svg": lambda: "<svg>b</svg>"}
    (tmp_path / "b.svg").write_text("<svg>old</svg>")
    (tmp_path / "c.svg").write_text("<svg/>")
    assert [problem.what for problem in build.check_drawn(tmp_path, drawings)] == [
        "the picture is not there",
        "it would be drawn otherwise now",
        "nothing draws this file",
    ]
    assert build.write_pictures(tmp_path, drawings) == 2
    assert build.write_pictures(tmp_path, drawings) == 0
    assert [problem.what for problem in build.check_drawn(tmp_path, drawings)] == ["nothing draws this file"]


def run(folder: Path, code: str) -> str:
    return shown(check_examples.check_examples([page(folder, f"# Page\n\n```python\n{code}\n```\n")]))


def test_an_example_that_raises_is_found_at_its_line(tmp_path: Path) -> None:
    found = run(tmp_path, "x = 1\nassert x == 2")
    assert found == "docs/page.md:5: the example raises AssertionError: assert x == 2: correct it"


def test_an_example_that_shows_something_else_is_found(tmp_path: Path) -> None:
    assert run(tmp_path, "1 + 1  # -> 2") == ""
    assert run(tmp_path, "print('a', 'b', sep='\\n')\n# -> a\n# -> b") == ""
    assert "shows '2', the page says '3'" in run(tmp_path, "1 + 1  # -> 3")
    assert "belongs to no expression" in run(tmp_path, "x = 1  # -> 1")


def test_an_example_that_is_not_python_or_checks_nothing_is_found(tmp_path: Path) -> None:
    assert "not Python" in run(tmp_path, "assert (")
    assert "the example checks nothing: add an assert" in run(tmp_path, "x = 1")


def test_examples_of_a_page_share_a_namespace_and_a_directory_that_is_gone_afterwards(tmp_path: Path) -> None:
    first = "```python\nx = 1\nopen('made', 'w').close()\nassert x\n```\n"
    second = "```python\nimport os\nassert os.path.exists('made') and x == 1\n```\n"
    assert check_examples.check_examples([page(tmp_path, first + second)]) == []
    assert not Path("made").exists()


def test_a_name_a_member_and_a_signature_that_are_missing_are_found(tmp_path: Path) -> None:
    rooms = {"beforehand.predicate": ("docs/reference/predicate.md",)}
    (one,) = (page for page in PAGES if page.name == "docs/reference/predicate.md")
    text = one.path.read_text(encoding="utf-8")
    for removed, what in (
        ("`Predicate`", "`Predicate` is not documented"),
        ("`PATTERNS_MAX`", "`PATTERNS_MAX` is not documented"),
        ("`depth`", "`Compare.depth` is not documented"),
        ("`Field(name, key=None)`", "Field: no code span has this signature: write `Field(name, key=None)`"),
    ):
        less = page(tmp_path, text.replace(removed, "gone"), "docs/reference/predicate.md")
        assert what in shown(check_names.check_names([less], rooms))


def test_members_must_stand_where_the_class_has_its_heading(tmp_path: Path) -> None:
    rooms = {"beforehand.clocks": ("docs/reference/clocks/",)}
    lamport = page(tmp_path, "## `LamportClock`\n", "docs/reference/clocks/lamport.md")
    other = page(tmp_path, "## Other\n\n`tick()`\n", "docs/reference/clocks/other.md")
    assert "LamportClock: no code span has this signature: write `tick()`" in shown(
        check_names.check_names([lamport, other], rooms)
    )


def test_a_reason_that_is_missing_is_found(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text('A: Final = "bad-line"\nraise RefusedError(A, "x")\nreject("twice", "x")\n')
    assert check_names.reasons_in(tmp_path) == {"bad-line": "reader.py", "twice": "reader.py"}
    one = page(tmp_path, "`twice`\n", "docs/reference/events.md")
    assert shown(check_names.check_reasons([one], tmp_path)) == (
        "docs/reference/events.md:1: reason `bad-line` (reader.py) is not listed: list it with its meaning"
    )


def test_a_column_that_is_missing_wrong_or_too_much_is_found(tmp_path: Path) -> None:
    (one,) = (page for page in PAGES if page.name == check_tables.DIRECTORY)
    text = one.path.read_text(encoding="utf-8")
    tables = {title: check_tables.TABLES[title] for title in ("rejected/", "cuts/members.parquet")}
    for old, new, what in (
        ("| `detail` |", "| `details` |", "column `detail` of rejected/ is not listed"),
        ("| `detail` |", "| `details` |", "rejected/ has no column `details`"),
        ("| `offset` | int64, null |", "| `offset` | int64 |", "the type of `offset` is not 'int64'"),
        ("## `rejected/`", "## Rejected", "no heading `rejected/`"),
        ("| `packs` |", "| `pack` |", "key `packs` of manifest.json is not listed"),
    ):
        assert old in text
        less = page(tmp_path, text.replace(old, new), check_tables.DIRECTORY)
        assert what in shown(check_tables.check_tables([less], tables))


def test_a_column_of_a_merge_that_is_missing_is_found(tmp_path: Path) -> None:
    (directory,) = (page for page in PAGES if page.name == check_tables.DIRECTORY)
    (merge,) = (page for page in PAGES if page.name == check_tables.MERGE)
    text = merge.path.read_text(encoding="utf-8").replace("| `position` |", "| `place` |")
    less = page(tmp_path, text, check_tables.MERGE)
    assert "column `position` of OUT/merged/ is not listed" in shown(check_tables.check_tables([directory, less]))


def test_a_key_of_the_report_that_is_missing_is_found(tmp_path: Path) -> None:
    (directory,) = (page for page in PAGES if page.name == check_tables.DIRECTORY)
    (report,) = (page for page in PAGES if page.name == check_tables.REPORT)
    text = report.path.read_text(encoding="utf-8").replace("`inferred`", "gone")
    less = page(tmp_path, text, check_tables.REPORT)
    assert shown(check_tables.check_tables([directory, less])) == (
        "docs/reference/report.md:1: key `inferred` of report.json is not there: describe it"
    )


def test_a_command_or_an_option_that_is_missing_or_gone_is_found(tmp_path: Path) -> None:
    (one,) = (page for page in PAGES if page.name == check_tables.COMMANDS)
    text = one.path.read_text(encoding="utf-8")
    for old, new, what in (
        ("## relate", "## related", "command relate has no section"),
        ("| `--delta MS` |", "| `--dleta MS` |", "check: `--delta` is not there"),
        ("| `--delta MS` |", "| `--dleta MS` |", "no command has the option `--dleta`"),
        ("beforehand cut DIR", "cut DIR", "no usage of cut"),
    ):
        assert old in text
        less = page(tmp_path, text.replace(old, new), check_tables.COMMANDS)
        assert what in shown(check_tables.check_commands([less]))


def test_a_shared_option_or_key_that_is_missing_gone_or_of_others_is_found(tmp_path: Path) -> None:
    text = Path(build.ROOT / check_words.PAGE).read_text(encoding="utf-8")
    without = "\n".join(line for line in text.split("\n") if not line.startswith("| `--where` |"))
    other = (
        without.replace("| `draw`, `export`, `order` |", "| `draw`, `export` |") + "| `--gone` | nothing | `find` |\n"
    )
    found = [problem.what for problem in check_words.check_words([page(tmp_path, other, check_words.PAGE)])]
    said = "is of other commands than it says"
    assert found == [f"`--where` {said}", f"`to` {said}", "`--gone` is not of several commands"]
    (problem,) = check_words.check_words([])
    assert "is not there" in problem.what


def test_unknown_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--chekc"]) == 2
    assert "use none, or --check" in capsys.readouterr().err


def test_a_listener_a_reader_a_fuzz_target_or_a_bound_that_security_does_not_know_is_found(tmp_path: Path) -> None:
    (one,) = (page for page in PAGES if page.name == check_security.SECURITY)
    text = one.path.read_text(encoding="utf-8")
    for old, new, what in (
        ("`runtime/transports/tcp.py`", "tcp", "runtime/transports/tcp.py listens, and is not named"),
        ("`pipeline/jvm.py`", "`pipeline/scan.py`", "pipeline/scan.py is named, and does not listen"),
        ("`member-*`", "members", "fuzz target `member-fifo` is not named"),
        ("`zipkin`", "`zipkni`", "there is no fuzz target `zipkni`"),
        ("`read_zipkin`", "it", "`read_zipkin` is not named"),
        ("| 16,777,216 |", "| 16,777,217 |", "Limits.body_bytes_max` is 16,777,216, not 16,777,217"),
        ("codec.DEPTH_MAX", "codec.DEEP_MAX", "there is no `beforehand.runtime.codec.DEEP_MAX`"),
        ("## Bounds", "## Limits", "no heading Bounds"),
    ):
        assert old in text
        less = page(tmp_path, text.replace(old, new), check_security.SECURITY)
        assert what in shown(check_security.check_security([less]))


@pytest.mark.parametrize(
    "line",
    ["await asyncio.start_server(f)", "sock.bind(x)", "server = ThreadingHTTPServer(a, b)", "uvicorn.run(app)"],
)
def test_every_way_to_listen_is_known(tmp_path: Path, line: str) -> None:
    (tmp_path / "door.py").write_text(f"{line}\n")
    assert check_security.listening_files(tmp_path) == {"door.py"}


# The shell.


def typed(folder: Path, text: str, kind: str = "console") -> str:
    one = page(folder, f"# Page\n\n```{kind}\n{text}\n```\n")
    return shown([*check_shell.check_fences([one]), *check_examples.check_examples([one], shell=True)])


def test_what_is_typed_must_print_what_the_page_says_in_that_order(tmp_path: Path) -> None:
    assert typed(tmp_path, "$ printf 'a\\nb\\nc 17 d\\n'\na\nc … d\n$ echo done    # A comment.\ndone") == ""
    assert "does not print 'a' (there)" in typed(tmp_path, "$ printf 'a\\nb\\n'\nb\na")
    assert "docs/page.md:6: `echo x` does not print 'y'" in typed(tmp_path, "$ echo b\nb\n$ echo x\ny")


def test_a_command_that_fails_is_found_and_one_that_judges_may(tmp_path: Path) -> None:
    assert "`false` ended with status 1" in typed(tmp_path, "$ false")
    assert "`false | cat` ended with status 1" in typed(tmp_path, "$ false | cat")
    assert "ended with status 3" in typed(tmp_path, "true\n(exit 3)\ntrue", "sh")
    assert "ended with status 2: beforehand:" in typed(tmp_path, "$ beforehand relate")


def test_a_long_command_goes_on_after_a_backslash_and_a_hidden_one_is_run_in_its_place(tmp_path: Path) -> None:
    assert typed(tmp_path, "$ echo a \\\n   b\na b") == ""
    one = page(tmp_path, "<!-- run: echo secret > file -->\n\n```console\n$ cat file\nsecret\n```\n")
    assert check_examples.check_examples([one], shell=True) == []
    late = page(tmp_path, "```console\n$ cat file\n```\n\n<!-- run: echo secret > file -->\n")
    assert "`cat file` ended with status 1" in shown(check_examples.check_examples([late], shell=True))


def test_what_python_examples_of_a_page_made_is_there_for_those_of_the_shell(tmp_path: Path) -> None:
    shell = "```console\n$ cat made\nyes\n```\n\n"
    text = f"{shell}```python\nfrom pathlib import Path\nassert Path('made').write_text('yes')\n```\n"
    assert check_examples.check_examples([page(tmp_path, text)], shell=True) == []


def test_a_service_runs_until_the_page_is_done_at_a_port_that_is_free(tmp_path: Path) -> None:
    ask = "python -c \"from urllib.request import urlopen; print(urlopen('http://127.0.0.1:7171/healthz').status)\""
    text = f"$ beforehand serve --store s.db\nserving s.db at http://127.0.0.1:7171/ (Ctrl-C stops it)\n$ {ask}\n200"
    assert typed(tmp_path, text) == ""


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("", "a fence without a kind"),
        ("bash", "a fence of the kind 'bash'"),
        ("sh norun", "unknown words 'sh norun'"),
        ("sh not run: no", "unknown words 'sh not run: no'"),
        ("text not run: it is a text", "unknown words"),
    ],
)
def test_a_fence_that_does_not_say_what_it_is_or_why_it_is_not_run_is_found(
    tmp_path: Path, kind: str, what: str
) -> None:
    assert what in typed(tmp_path, "x", kind)


def test_an_example_that_says_why_it_is_not_run_is_not(tmp_path: Path) -> None:
    assert typed(tmp_path, "false", "sh not run: it would fail here") == ""


# The interfaces.


def test_a_route_a_parameter_or_a_key_that_is_missing_or_gone_is_found(tmp_path: Path) -> None:
    document = check_interfaces.openapi()
    texts = {
        one.name: one.path.read_text(encoding="utf-8") for one in PAGES if one.name.startswith("docs/reference/")
    }
    for name, old, new, what in (
        (check_interfaces.HTTP, "`GET /api/relate`", "relate", "route `GET /api/relate` is not listed"),
        (check_interfaces.HTTP, "`GET /api/cut`", "`GET /api/cuts`", "there is no route `GET /api/cuts`"),
        (check_interfaces.HTTP, "`delta_ns`", "δ", "GET /api/checks: parameter `delta_ns` is not there"),
        (check_interfaces.HTTP, "`partialSuccess`", "it", "key `partialSuccess` of an answer is not there"),
    ):
        assert old in texts[name]
        less = [page(tmp_path, text.replace(old, new) if at == name else text, at) for at, text in texts.items()]
        assert what in shown(list(check_interfaces.check_routes(less, document)))


def test_a_usage_or_a_key_of_a_command_that_is_wrong_is_found(tmp_path: Path) -> None:
    (one,) = (page for page in PAGES if page.name == check_interfaces.COMMANDS)
    text = one.path.read_text(encoding="utf-8")
    for old, new, what in (
        ("[--witnesses 100]", "", "the usage of analyze lacks --witnesses"),
        ("[--limit 20]", "[--limit 20] [--until 3]", "the usage of check has --until, which is no option of it"),
        ("`in_flight`", "those", "cut: key `in_flight` is not there"),
    ):
        assert old in text
        less = [page(tmp_path, text.replace(old, new), check_interfaces.COMMANDS)]
        found = [*check_interfaces.check_usage(less), *check_interfaces.check_keys(less)]
        assert what in shown(found)


def test_a_protocol_a_clock_a_variable_or_a_target_that_is_not_there_is_found(tmp_path: Path) -> None:
    assert "protocol gossip has no page" in shown(list(check_interfaces.check_named(PAGES, ["gossip"])))
    clocks = {one.name: one.path.read_text(encoding="utf-8") for one in PAGES if "/reference/" in one.name}
    less = [page(tmp_path, text.replace("HybridClock", "Hybrid"), name) for name, text in clocks.items()]
    found = shown(list(check_interfaces.check_named(less)))
    assert "clock `HybridClock` is not in the list" in found
    assert "clock `HybridClock` has no section" in found
    (tmp_path / "new.py").write_text('os.environ.get("BEFOREHAND_NEW")\n')
    assert "variable BEFOREHAND_NEW is not there" in shown(list(check_interfaces.check_variables(PAGES, tmp_path)))
    one = page(tmp_path, "`make test`, `make coffee`, `make bench-rpc`, `make bench-tea`\n")
    assert shown(list(check_interfaces.check_make([one], "test: lint\nbench-%: test\n", ["rpc"]))) == (
        "docs/page.md:1: there is no `make bench-tea`: correct it\n"
        "docs/page.md:1: there is no `make coffee`: correct it"
    )
