"""The modules of the page by themselves, asked inside the browser."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from browsing import FEW, HOSTILE, Serve, Visitor

from beforehand.diagram.sheet import DARK, LIGHT, Palette
from beforehand.diagram.shortening import Shortening
from beforehand.diagram.text import visible
from beforehand.predicate import Predicate


@pytest.fixture
def ask(visitor: Visitor, serve: Serve) -> Any:
    """Calls `(module, given) => ...` with a module of the page."""
    service = serve()
    seen = visitor.open(service.url)

    def ask(module: str, function: str, given: object = None) -> Any:
        script = f"async (given) => ({function})(await import('/page/{module}'), given)"
        return seen.page.evaluate(script, given)

    return ask


def test_text_is_made_visible_as_in_the_diagrams(ask: Any) -> None:
    texts = [
        "plain",
        "tab\there\nand\x00there\x7f",
        "user\u202enimda\u2066x\u2069",
        "family 👨\u200d👩\u200d👧 \ufeff",
        "e\u0301" + "\u0300" * 9 + "x",
        "\u2028line\u2029",
        "\ufffe and \U0001fffe",
        "שלום and مرحبا",
        HOSTILE,
        "x" * 600,
    ]

    shown = ask("text.js", "({visible}, texts) => texts.map((text) => visible(text))", texts)

    assert shown == [visible(text) for text in texts]


def test_the_colours_are_those_of_the_diagrams(ask: Any) -> None:
    found = ask("palette.js", "({LIGHT, DARK}) => [LIGHT, DARK]")

    for given, expected in zip(found, (LIGHT, DARK), strict=True):
        names = {name.replace("_b", "B"): getattr(expected, name) for name in Palette.__dataclass_fields__}
        assert given == names


def test_words_become_a_predicate_and_predicates_stay(ask: Any) -> None:
    asked = ["checkout failed", "process = cart", "a+b? [c]", 'say "no" \\ never', "not kind = send", "x(y)"]

    given = ask("search.js", "({Search}, all) => all.map((one) => Search.predicate(one))", asked)

    assert given[1] == asked[1]
    assert given[4] == asked[4]
    for words in (0, 2, 3):
        predicate = Predicate.parse(given[words])
        assert predicate(FEW[0].__class__(process="p", index=1, name=f"Well: {asked[words].upper()}!"))
        assert not predicate(FEW[0])


def test_an_address_holds_any_name(ask: Any) -> None:
    state = {
        "source": None,
        "execution": "a&b=c #d/%",
        "axis": "time",
        "selected": "p\u202e:1",
        "where": 'name = "x"',
        "cut": "after:a/b:3",
        "against": "",
        "othersource": None,
        "at": 12345678901234,
        "width": 0.5,
        "hidden": ["a,b", "=", ""],
        "folded": [],
        "order": [HOSTILE],
    }

    assert ask("state.js", "({hashOf, readState}, state) => readState(hashOf(state))", state) == state


@pytest.mark.parametrize("seed", range(5))
def test_time_grows_along_the_screen_and_can_be_read_back(ask: Any, seed: int) -> None:
    random = Random(seed)
    columns, t = [], 0
    for _ in range(300):
        same = random.random() < 0.3
        t += 0 if same else random.choice([1, 3, 50, 100_000, 10**9])
        depth = columns[-1]["depth"] + 1 if columns and columns[-1]["t"] == t else 0
        columns.append({"t": t, "depth": depth, "lanes": [random.randrange(4)], "dense": 300 / 10**10})
    places = ask(
        "warp.js",
        """({Warp}, {columns, scale}) => {
          const warp = new Warp(columns, {...columns[150], px: 500, scale});
          return columns.map((one) => [warp.pos(one.t, one.depth), warp.time(warp.pos(one.t, one.depth)), one.t]);
        }""",
        {"columns": columns, "scale": random.choice([1e-8, 1e-6, 1e-3, 2.0])},
    )

    assert abs(places[150][0] - 500) < 1e-6
    assert all(later[0] > earlier[0] for earlier, later in pairwise(places))
    assert all(abs(read - meant) <= max(1e-6 * meant, 1e-6) for _, read, meant in places)


def test_events_of_one_instant_stand_in_causal_order(ask: Any) -> None:
    def event(lane: int, index: int) -> dict[str, Any]:
        return {"id": f"{lane}:{index}", "lane": lane, "index": index, "x": 7, "rank": index - 1, "kind": "local"}

    events = [event(0, 1), event(0, 2), event(1, 1), event(1, 2), event(2, 1)]
    messages = [
        {"message": "a", "from": {"lane": 1, "index": 2, "x": 7}, "to": {"lane": 0, "index": 1, "x": 7}},
        {"message": "b", "from": {"lane": 0, "index": 2, "x": 7}, "to": {"lane": 2, "index": 1, "x": 7}},
    ]

    depths = ask(
        "tiles.js",
        """async ({Tree}, window) => {
          const tree = new Tree(100, 5, async () => window, () => {}, (error) => { throw error; });
          tree.want(tree.cover(0, 100, 1), 50);
          while (tree.busy) await new Promise((done) => setTimeout(done, 1));
          return Object.fromEntries(tree.root.data.events.map((one) => [one.id, one.depth]));
        }""",
        {"detail": "events", "events": events, "messages": messages, "violations": []},
    )

    assert depths == {"1:1": 0, "1:2": 1, "0:1": 2, "0:2": 3, "2:1": 4}


def test_requests_that_nobody_waits_for_any_more_are_aborted_and_what_is_kept_is_bounded(ask: Any) -> None:
    aborted, most, kept = ask(
        "tiles.js",
        """async ({Tree}) => {
          let aborted = 0, under = 0, most = 0;
          const window = {detail: "columns", columns: 4, counts: {0: [[0, 9, 0]]}, flows: [], flows_more: 0};
          const ask = (from, to, events, signal) => new Promise((done, fail) => {
            under += 1;
            most = Math.max(most, under);
            const end = (what, value) => { under -= 1; what(value); };
            const timer = setTimeout(() => end(done, window), 1);
            signal.addEventListener("abort", () => {
              clearTimeout(timer);
              aborted += 1;
              end(fail, new DOMException("", "AbortError"));
            });
          });
          const tree = new Tree(2 ** 30, 1e6, ask, () => {}, (error) => { throw error; });
          const rest = async () => { while (tree.busy) await new Promise((done) => setTimeout(done, 1)); };
          const look = (from, width) => tree.want(tree.cover(from, from + width, 1200 / width), from + width / 2);
          look(0, 2 ** 20);
          look(2 ** 25, 2 ** 20);
          await rest();
          for (let at = 0; at < 120; at += 1) { look(at * 2 ** 21, 2 ** 20); await rest(); }
          return [aborted, most, tree.loaded.size];
        }""",
    )

    assert aborted > 0
    assert most <= 4
    assert kept <= 120


def test_times_are_short_and_tell_neighbours_apart(ask: Any) -> None:
    asked = [[0, 1], [1_500_000, 100_000], [2_400_100_000, 100_000], [7_265e9, 1e9], [90_061e9, 60e9], [999, 1]]

    shown = ask("text.js", "({elapsed}, all) => all.map(([ns, step]) => elapsed(ns, step))", asked)

    assert shown == ["0", "+1.5 ms", "+2.4001 s", "+2:01:05", "+1 d 1:01:01", "+999 ns"]


def test_a_clock_reading_keeps_its_nanoseconds(ask: Any) -> None:
    shown = ask("text.js", "({clock}, all) => all.map(clock)", ["1790000003939106908", "1790000000000000000", "42"])

    assert shown == ["2026-09-21T14:13:23.939106908Z", "2026-09-21T14:13:20Z", "42 ns"]


def test_names_are_shortened_as_in_the_drawings(ask: Any) -> None:
    random = Random(5)
    lists = [["".join(random.choices("ab-#1é👨", k=random.randint(0, 14))) for _ in range(6)] for _ in range(200)]
    lists = [list(dict.fromkeys(names)) for names in lists]
    lists.append(["42795@host[main,5,main]", "42795@host[Thread-27,5,main]", "x" * 700 + "1", "x" * 700 + "2"])

    shown = ask(
        "shortening.js",
        "({Shortening}, lists) => lists.map((names) => {"
        " const short = new Shortening(names, (text) => [...text].length);"
        " return names.map((name) => [7, 12].map((room) => short.fit(name, room))); })",
        lists,
    )

    expected = []
    for names in lists:
        short = Shortening(names, len)
        expected.append([[short.fit(name, room) for room in (7, 12)] for name in names])
    assert shown == expected
