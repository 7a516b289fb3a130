"""RESULTS.md is what the data of the parts gives, a part changes its own files only, and a failure is told."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

from benchmarks.__main__ import main
from benchmarks.assembling import FOLDER, assemble, drawn, keep, note_failure, reports_of
from benchmarks.bars import Bar, bars_svg
from benchmarks.claims import CLAIMS
from benchmarks.markdown import anchor_of, part_page, results_page
from benchmarks.parts import PARTS, Part
from benchmarks.plots import growth_plot, plot_of
from benchmarks.report import ONE_RUN, Figure, Report, Row, Section, Table, decode, encode, median_of, slug
from benchmarks.timing import compare

import check_figures
import check_links
import pages

ROOT = Path(__file__).resolve().parent.parent


def report(part: str = "clocks", *, value: float = 5.0) -> Report:
    table = Table("vector", ("operation", "2 entries"), (Row(("dict: tick",), (Figure(value, 1),)),), ONE_RUN)
    return Report(part, "2026-01-02", "a machine", {"Python": "3.11"}, (Section("Ticks", "", table),))


def small_part(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, *, name: str = "clocks") -> Part:
    """A part whose module is this code."""
    module = f"small_{name}"
    (folder / f"{module}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT / 'src'}")
    return Part(name=name, title="Small", module=module, takes="a moment")


GOOD = """
import sys
from benchmarks.report import ONE_RUN, Figure, Row, Section, Table, deliver, report_of, target

table = Table("vector", ("operation", "2 entries"), (Row(("dict: tick",), (Figure(7.0, 1),)),), ONE_RUN)
sys.exit(deliver(report_of("clocks", [Section("", "", table)]), target(sys.argv[1:])[1]))
"""


# The results of this project.


def test_every_page_and_plot_is_what_the_data_gives() -> None:
    wanted = drawn(FOLDER)
    stale = [path.name for path, text in wanted.items() if not path.is_file() or path.read_text() != text]
    assert stale == [], "run `python -m benchmarks --assemble`; nobody edits these files by hand"
    data = {FOLDER / f"{name}{end}" for name in PARTS for end in (".json", ".failed")}
    assert [path.name for path in FOLDER.iterdir() if path not in wanted and path not in data] == []


def test_every_link_of_the_results_leads_somewhere() -> None:
    found = [pages.read_page(path, ROOT) for path in (ROOT / "benchmarks" / "RESULTS.md", *FOLDER.glob("*.md"))]
    assert [str(problem) for problem in check_links.check_links(found, ROOT)] == []


def test_anchors_are_unique() -> None:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    anchors = pages._ANCHOR.findall(text)
    assert len(anchors) == len(set(anchors))


def test_every_claim_of_a_part_that_was_run_has_its_figure() -> None:
    reports = reports_of(FOLDER)
    missing = [
        claim.says
        for claim in CLAIMS
        if claim.part in reports and reports[claim.part].figure(claim.table, claim.row, claim.column) is None
    ]
    assert missing == []


def test_every_part_has_a_module_and_every_claim_a_part() -> None:
    assert [part.name for part in PARTS.values() if find_spec(part.module) is None] == []
    assert {claim.part for claim in CLAIMS} <= set(PARTS)


def test_what_readme_and_docs_claim_was_measured() -> None:
    found = pages.pages_of(ROOT)
    assert [str(problem) for problem in check_figures.check_figures(found, ROOT)] == []
    (readme,) = (page for page in found if page.name == "README.md")
    assert check_figures._CLAIM.search(readme.prose)


# Figures and tables.


def test_a_figure_is_the_median_with_the_least_and_the_most() -> None:
    assert str(Figure.of([3.0, 1.0, 20.0], digits=1, ratio=2)) == "3.0 (1.0–20.0) ×2.00"
    assert str(Figure.of([1234.5])) == "1,234"


def test_many_repeats_are_shown_with_their_quartiles() -> None:
    assert str(Figure.of(range(41))) == "20 (10–30)"
    assert median_of(20, "In turns.") == "Median of 20 runs, in brackets the quartiles. In turns."


def test_one_run_has_no_spread_and_says_so() -> None:
    assert Figure.of([2.0]).low is None
    assert median_of(1) == ONE_RUN
    assert median_of(7) == "Median of 7 runs, in brackets the least and the most."


def test_a_table_that_does_not_say_how_often_it_was_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="how often"):
        Table("t", ("a",), (), "")


def test_a_table_whose_rows_do_not_fit_or_share_an_anchor_is_refused() -> None:
    with pytest.raises(ValueError, match="as many cells"):
        Table("t", ("a", "b"), (Row(("x",), ()),), ONE_RUN)
    with pytest.raises(ValueError, match="same anchor"):
        Table("t", ("a",), (Row(("**X**",), ()), Row(("x",), ())), ONE_RUN)


def test_a_report_survives_its_file() -> None:
    assert decode(encode(report())) == report()


def test_a_missing_row_column_or_value_has_no_figure() -> None:
    made = report()
    assert made.figure("vector", ("dict: tick",), "2 entries") == Figure(5.0, 1)
    assert made.figure("vector", ("dict: tock",), "2 entries") is None
    assert made.figure("vector", ("dict: tick",), "3 entries") is None
    assert made.figure("vector", ("dict: tick",), "operation") is None
    assert made.figure("other", ("dict: tick",), "2 entries") is None


def test_ratios_are_between_neighbours_of_one_round() -> None:
    timings = compare({"a": lambda: None, "b": lambda: sum(range(2_000))}, repeats=3, seconds=0.0001)
    assert len(timings["a"].times_ns) == 3
    assert timings["b"].over(timings["a"]) > 1
    assert timings["a"].over(timings["a"]) == 1
    assert timings["b"].figure().low is not None


# The page.


def test_the_page_of_a_part_has_command_date_machine_and_versions() -> None:
    lines = part_page(report()).split("\n")
    assert lines[:5] == [
        "# Clocks",
        "",
        "- `make bench PARTS=clocks` (half a minute)",
        "- 2026-01-02, a machine",
        "- Python 3.11",
    ]
    assert '| <a id="clocks-vector-dict-tick"></a>dict: tick | 5.0 |' in lines
    assert ONE_RUN in lines


def test_results_name_parts_that_were_not_run_and_those_that_failed() -> None:
    text = results_page({"clocks": report()}, failures={"clocks": "exit 1", "rpc": "exit 3"}, pictures={})
    assert "**The last run failed (exit 1); the figures are of the run before.**" in text
    assert "**The last run failed (exit 3); there are no figures.**" in text
    assert "Not run yet: `make bench PARTS=groups`" in text
    assert "| [Groups](#groups) | `make bench PARTS=groups` | not run |" in text
    assert "| [Clocks](#clocks) | `make bench PARTS=clocks` | 2026-01-02, the last run failed |" in text


def test_the_summary_takes_its_figures_from_the_data() -> None:
    claim = CLAIMS[0]
    table = Table(claim.table, ("x", claim.column), (Row(claim.row, (Figure(8.0, 0, 7.0, 9.0),)),), "Three runs.")
    made = Report(claim.part, "2026-01-02", "m", {}, (Section("", "", table),))
    text = results_page({claim.part: made}, failures={}, pictures={})
    anchor = anchor_of(made, table, table.rows[0])
    assert f"| {claim.says} | **8{claim.unit}** (7–9) | Three runs. | [{claim.part}](#{anchor}) |" in text
    assert f"| {claim.says} | not measured |" in results_page({}, failures={}, pictures={})


def test_an_anchor_has_letters_digits_and_dashes_only() -> None:
    assert slug("pipeline", "growth", "10,000,000") == "pipeline-growth-10000000"
    assert slug("**VectorClock**: merge (`receive`)") == "vectorclock-merge-receive"


# Running.


def test_a_part_changes_its_own_files_and_the_results_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "b" / "results"
    shutil.copytree(FOLDER, folder)
    assemble(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    part = small_part(tmp_path, monkeypatch, GOOD)
    assert main(["clocks"], folder, {"clocks": part}) == 0
    changed = {path.name for path in folder.iterdir() if before.get(path) != path.stat().st_mtime_ns}
    assert changed == {"clocks.json", "clocks.md", "clocks.svg"}
    assert "dict: tick | 7.0 |" in (folder.parent / "RESULTS.md").read_text()


def test_a_part_that_fails_keeps_its_old_figures_and_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "b" / "results"
    folder.mkdir(parents=True)
    keep(folder, report("groups", value=3.25))
    bad = small_part(tmp_path, monkeypatch, "raise RuntimeError('on host x')", name="groups")
    good = small_part(tmp_path, monkeypatch, GOOD)
    assert main([], folder, {"groups": bad, "clocks": good}) == 1
    assert "benchmarks: groups failed: exit 1, RuntimeError\n" in capfd.readouterr().err
    text = (folder.parent / "RESULTS.md").read_text()
    assert "exit 1, RuntimeError); the figures are of the run before" in text
    assert "host x" not in text
    assert reports_of(folder)["groups"] == report("groups", value=3.25)
    assert "dict: tick | 7.0 |" in text


def test_a_good_run_after_a_failed_one_takes_the_mark_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "results"
    note_failure(folder, "clocks", "exit 1")
    assert main(["clocks"], folder, {"clocks": small_part(tmp_path, monkeypatch, GOOD)}) == 0
    assert "failed" not in (tmp_path / "RESULTS.md").read_text()


def test_a_part_that_leaves_no_report_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "results"
    assert main(["clocks"], folder, {"clocks": small_part(tmp_path, monkeypatch, "")}) == 1
    assert "no report: FileNotFoundError" in (folder / "clocks.failed").read_text()


def test_an_unknown_part_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clocks", "clcoks"], tmp_path / "results") == 2
    assert "benchmarks: there is no part clcoks; there are clocks, " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_parts_are_listed_with_what_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "pipeline-100        The pipeline on Spark, 100 million events (an hour" in capsys.readouterr().out


def test_assembling_removes_what_no_longer_follows_and_touches_nothing_that_is_right(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    keep(folder, report())
    (folder / "old.svg").write_text("<svg/>")
    assert {path.name for path in assemble(folder)} == {"clocks.md", "clocks.svg", "RESULTS.md"}
    assert not (folder / "old.svg").exists()
    assert assemble(folder) == []


# Plots.


def test_bars_are_well_formed_in_both_themes_with_aims_and_spread() -> None:
    bars = [Bar(name="<a>", value=5, told="5 & more", low=4, high=6), Bar(name="b", value=1, told="1", aim=10)]
    svg = bars_svg(bars, title="T", unit="per second")
    root = ElementTree.fromstring(svg)
    classes = [element.get("class") for element in root.iter()]
    assert classes.count("bar") == 2
    assert classes.count("whisker") == classes.count("aim") == 1
    assert "prefers-color-scheme:dark" in svg
    assert "the upright line is the aim" in svg
    with pytest.raises(ValueError, match="below 0"):
        bars_svg([Bar(name="a", value=-1, told="")], title="", unit="")


def test_a_part_with_nothing_to_draw_has_no_plot() -> None:
    assert plot_of(Report("rpc", "", "", {}, ())) is None
    assert plot_of(report("history")) is None
    assert growth_plot({}) is None


def test_the_plot_of_calls_has_a_line_for_each_variant_and_the_floor() -> None:
    rows = [Row(("floor", ""), (Figure(1.1, 2),))]
    rows += [Row(("timestamps", size), (Figure(float(at), 2),)) for at, size in enumerate(("2", "1,000"), 2)]
    table = Table("HTTP", ("variant", "entries", "ratio"), tuple(rows), ONE_RUN)
    svg = plot_of(Report("rpc", "", "", {}, (Section("HTTP", "", table),)))
    assert svg is not None
    assert "timestamps: 3 at 1,000" in svg
    assert "floor: 1.1 at 2<" in svg


def test_a_figure_of_nothing_is_drawn_too() -> None:
    made = report(value=0.0)
    assert "dict: 0 at 2" in (plot_of(made) or "")


# The check of claims.


@pytest.mark.parametrize(
    ("claimed", "measured", "same"),
    [
        ("110", "110.0", True),
        ("10,300", "10,321", True),
        ("10,321", "10,321", True),
        ("0.09", "0.094", True),
        ("3.57", "3.57", True),
        ("9.1", "9.14", True),
        ("3.58", "3.57", False),
        ("10,400", "10,321", False),
        ("100", "134.7", False),  # To one digit it would be, but that is too rough.
        ("1.0", "1.04", True),
        ("1.0", "1.06", False),
    ],
)
def test_a_claim_may_be_rounded_but_not_wrong(claimed: str, measured: str, same: bool) -> None:
    assert check_figures.same_figure(claimed, measured) is same


def test_a_claim_that_is_not_in_its_row_is_found(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "RESULTS.md").write_text('| <a id="clocks-9"></a>tick, 2 entries | 5.0 (4.0–6.0) |\n')
    claims = [f"[{text}](benchmarks/RESULTS.md#clocks-9)\n" for text in ("5 ns", "9", "measured")]
    (tmp_path / "README.md").write_text("".join(claims))
    found = check_figures.check_figures([pages.read_page(tmp_path / "README.md", tmp_path)], tmp_path)
    assert [str(problem) for problem in found] == [
        "README.md:2: 9 is not in the row #clocks-9 of benchmarks/RESULTS.md: there are 2, 5.0, 4.0, 6.0",
        "README.md:3: the link to #clocks-9 names no figure: write the figure as its text",
    ]
