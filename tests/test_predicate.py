"""The `where` language: meaning, text, limits."""

from __future__ import annotations

import builtins
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import PredicateError
from beforehand.events import INDEX_MAX, Event
from beforehand.predicate import DEPTH_MAX, And, Compare, Field, Node, Not, Or, Predicate

EVENT = Event(
    process="cart",
    index=3,
    execution="run-1",
    sends=("m",),
    time=1_500_000_000,
    name="checkout failed: 42",
    attributes={"http.status-code": "503", "odd key": "it's", "big": "1e999", "word": "nan", "padded": " 5 "},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # = and != on text are exact.
        ("process = cart", True),
        ("process = Cart", False),
        ("process != cart", False),
        ('name = "checkout failed: 42"', True),
        ("execution = run-1", True),
        ("kind = send", True),
        ("kind != receive", True),
        # Attributes, with odd keys quoted.
        ("attributes.http.status-code = 503", True),
        ('attributes."http.status-code" = 503', True),
        ('attributes."odd key" = "it\'s"', True),
        ("attributes.\"odd key\" = 'it\\'s'", True),
        ("attributes.http.status-code = 503.0", False),  # Text, not a number.
        # A missing field: only != holds, and not negates plainly.
        ("attributes.none = x", False),
        ("attributes.none ~ x", False),
        ("attributes.none < x", False),
        ("attributes.none > x", False),
        ("attributes.none != x", True),
        ("not attributes.none < x", True),
        # Numbers by < and >, if the value is one without quotes.
        ("attributes.http.status-code > 60", True),
        ('attributes.http.status-code > "60"', False),
        ("attributes.http.status-code < 5.04e2", True),
        ("name > 0", False),
        ("name < 0", False),
        ("attributes.big > 0", False),  # Not finite.
        ("attributes.word < 0", False),
        ("attributes.padded > 0", False),
        ("process < dart", True),
        ("process > Z", True),  # By code points.
        # Time, in both forms.
        ("time = 1500000000", True),
        ("time = 1970-01-01T00:00:01.5Z", True),
        ('time < "1970-01-01 00:00:02Z"', True),
        ("time > 1970-01-01T01:00:01+01:00", True),
        ("time != 5", True),
        # ~ searches anywhere.
        ("name ~ fail", True),
        (r'name ~ "fail\w+: \d+$"', True),
        (r'name ~ "^fail"', False),
        ('name ~ "(?i)FAIL"', True),
        # not before and before or; keywords in any case.
        ("process = x and process = x or process = cart", True),
        ("process = x and (process = x or process = cart)", False),
        ("not process = x and process = x", False),
        ("NOT (process = x And process = x) OR name = y", True),
        ("not not process=cart", True),
    ],
)
def test_meaning(text: str, expected: bool) -> None:
    assert Predicate.parse(text)(EVENT) is expected


def test_event_without_time() -> None:
    event = Event(process="a", index=1)

    assert not Predicate.parse("time < 9")(event)
    assert not Predicate.parse("time > -9")(event)
    assert Predicate.parse("time != 9")(event)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("name=a", "name = a"),
        ("( (name=a) )", "name = a"),
        ("name = 'a b'", 'name = "a b"'),
        ("name = 'and'", 'name = "and"'),
        (r"name ~ 'a\d\'\\\\'", r'''name ~ "a\\d'\\\\"'''),
        ("attributes.x < 1e3", "attributes.x < 1000.0"),
        ("attributes.x < '1e3'", 'attributes.x < "1e3"'),
        ("time < 1970-01-01T00:00:01Z", "time < 1000000000"),
        ("name=a AND (name=b or not (name=c and name=d))", "name = a and (name = b or not (name = c and name = d))"),
        ("(name=a and name=b) or name=c", "name = a and name = b or name = c"),
        ('attributes."a b" = ""', 'attributes."a b" = ""'),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Predicate.parse(text)) == canonical


def test_chains_are_flat() -> None:
    a, b, c = (Compare(Field("name"), "=", text) for text in "abc")

    assert Predicate.parse("name=a or name=b or name=c").tree == Or((a, b, c))
    assert Predicate.parse("name=a and (name=b and name=c)").tree == And((a, And((b, c))))


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 0, "the expression ends"),
        ("  ", 2, "the expression ends"),
        ("name", 4, "= != ~ < >"),
        ("name =", 6, "a value"),
        ("name = and", 7, "quote it"),
        ("name = a name = b", 9, "expected and, or"),
        ("name = a or", 11, "a field"),
        ("(name = a", 0, "never closed"),
        ("name = a)", 8, "nothing is open"),
        ("()", 1, "a field"),
        ("colour = red", 0, "Fields are name, process, execution, kind, time, attributes.KEY"),
        ("Name = a", 0, "no field"),
        ("name.x = a", 0, "has no key"),
        ("name. = a", 6, "a key"),
        ("attributes = a", 0, "needs a key"),
        ("attributes. 'x' = a", 12, "directly after the dot"),
        ("attributes.'' = a", 0, "needs a key"),
        ("name = 'a", 7, "close the quote"),
        ("name = $a", 7, "unexpected '$'"),
        ("name == a", 6, "a value"),
        ("kind = sent", 7, "local, send, receive"),
        ("kind ~ send", 7, "= and !="),
        ("kind < 5", 7, "= and !="),
        ("time = noon", 7, "RFC 3339"),
        ("time = 9999999999999999999", 7, "64-bit"),
        ("time ~ 5", 7, "use < and >"),
        ("attributes.x < 1e999", 15, "64-bit float"),
        ("name ~ '('", 7, "not a regular expression"),
        ("name ~ '(?:a{1000}){1000}'", 7, "multiply"),
        ("name ~ '(?if)strasse'", 7, "flags"),
        ("name = '\ud800'", 7, "surrogate"),
        ("name \ud800", 5, "unexpected"),
        ("not " * 101 + "name = a", 396, "nested deeper"),
        ("(" * 101 + "name = a" + ")" * 101, 99, "nested deeper"),
        ("name=a" + " or name=a" * 1_000, None, "10006 characters"),
        (f"name ~ {'a' * 1_001}", 7, "1001 characters"),
        (" or ".join(["name ~ a"] * 51), 605, "patterns"),
    ],
)
def test_error_says_what_and_where(text: str, position: int | None, says: str) -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.parse(text)

    assert caught.value.position == position
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


KEYS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=5)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.sampled_from(
    ["and", "NOT", "12", "-1.5e3", '"', "\\", "'", "\\\\'", "a:b/c"]
)
TEXT_FIELDS = st.sampled_from([Field("name"), Field("process"), Field("execution")]) | KEYS.map(
    lambda key: Field("attributes", key)
)
COMPARES = (
    st.builds(Compare, TEXT_FIELDS, st.sampled_from(["=", "!=", "<", ">"]), TEXTS)
    | st.builds(Compare, TEXT_FIELDS, st.sampled_from("<>"), st.floats(allow_nan=False, allow_infinity=False))
    | st.builds(Compare, TEXT_FIELDS, st.just("~"), st.sampled_from(["a", "a.*b", r"\d+\"", "[' ]"]))
    | st.builds(
        Compare, st.just(Field("time")), st.sampled_from(["=", "!=", "<", ">"]), st.integers(-INDEX_MAX, INDEX_MAX)
    )
    | st.builds(
        Compare, st.just(Field("kind")), st.sampled_from(["=", "!="]), st.sampled_from(["local", "send", "receive"])
    )
)
TREES: st.SearchStrategy[Node] = st.recursive(
    COMPARES,
    lambda inner: (
        st.builds(Not, inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda terms: And(tuple(terms)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda terms: Or(tuple(terms)))
    ),
    max_leaves=8,
)


@given(TREES)
def test_canonical_text_parses_to_an_equal_tree(tree: Node) -> None:
    predicate = Predicate(tree)

    again = Predicate.parse(str(predicate))

    assert again == predicate
    assert str(again) == str(predicate)
    assert again(EVENT) == predicate(EVENT)


PARTS = st.sampled_from(
    [
        *("name", "time", "kind", "attributes.x", "attributes.", "5", "send", "'a b'"),
        *("=", "!=", "~", "<", ">", "(", ")", "and", "or", "not"),
        *("'", '"', "\\", "\ud800", "(?", "{9}", "$"),
    ]
)


@given(st.text(max_size=30) | st.lists(PARTS, max_size=12).map(" ".join) | st.lists(PARTS, max_size=12).map("".join))
def test_random_text_raises_nothing_but_predicate_errors(text: str) -> None:
    try:
        predicate = Predicate.parse(text)
    except PredicateError:
        return
    predicate(EVENT)
    assert Predicate.parse(str(predicate)) == predicate


def test_deepest_tree_can_be_written_read_compared_and_evaluated() -> None:
    predicate = Predicate.parse("not (" * 49 + "name = a or name = b" + ")" * 49)

    assert Predicate.parse(str(predicate)) == predicate
    assert predicate(EVENT) is True
    assert hash(predicate) == hash(Predicate.parse(str(predicate)))


def test_tree_deeper_than_the_limit_cannot_exist() -> None:
    tree: Node = Compare(Field("name"), "=", "a")
    for _ in range(DEPTH_MAX - 1):
        tree = Not(tree)

    assert Predicate.parse(str(tree)).tree == tree
    with pytest.raises(PredicateError, match="nested deeper"):
        Not(tree)


def test_long_chains_are_no_deeper_than_short_ones() -> None:
    predicate = Predicate.parse(" or ".join(["name=a"] * 900) + " or process=cart")

    assert predicate(EVENT)
    assert Predicate.parse("name=a" + " and name=a" * 500)(EVENT) is False


def test_invalid_comparisons_cannot_exist() -> None:
    with pytest.raises(PredicateError, match="64-bit"):
        Compare(Field("time"), "=", "noon")
    with pytest.raises(PredicateError, match="needs text"):
        Compare(Field("name"), "=", 5.0)
    with pytest.raises(PredicateError, match="needs text"):
        Compare(Field("name"), "~", 5)
    with pytest.raises(PredicateError, match="operator"):
        Compare(Field("name"), "<>", "a")  # type: ignore[arg-type]
    with pytest.raises(PredicateError, match="two terms"):
        And(())


def test_predicate_survives_pickling() -> None:
    predicate = Predicate.parse('name ~ "fail" and not time < 5')

    again = pickle.loads(pickle.dumps(predicate))

    assert again == predicate
    assert again(EVENT) is True


def test_catastrophic_search_ends_with_an_error() -> None:
    predicate = Predicate.parse(r'name ~ "(?:(?:x+)+)+(?<=y)$"')

    with pytest.raises(PredicateError, match=r"took more than 0\.1 s .* simplify"):
        predicate(Event(process="a", index=1, name="x" * 5_000 + "z"))


def test_text_that_is_too_long_to_search_is_an_error() -> None:
    predicate = Predicate.parse("name ~ y")

    assert not predicate(Event(process="a", index=1, name="x" * 1_000_000))
    with pytest.raises(PredicateError, match="1000001 characters"):
        predicate(Event(process="a", index=1, name="x" * 1_000_001))


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000}",  # One character, a million copies.
        "(?:ab|bc){300000}",  # Crashes the interpreter when compiled.
        "(?:(?:a{1000}){1000}){1000}",  # Takes all memory.
        "(?:" * 30 + "ab" + ")+" * 30,  # Each + doubles what is inside.
        "(?:" * 20 + "ab" + "){2,}" * 20,
        "(?x)(?:a {1000}) {1000}",
        "(?V1)(?i)strasse",
    ],
)
def test_pattern_that_is_harmful_to_compile_is_refused(pattern: str) -> None:
    with pytest.raises(PredicateError):
        Compare(Field("name"), "~", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}",
        r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z",
        r"(?:timeout|refused|reset)+ (?:by (?:peer|host))+ (?:after \d{1,5} ms)?",
        r"^[0-9a-f]{64}$",
        r".{0,2000}error",
        r"(?:abc){500}",
    ],
)
def test_usual_patterns_are_accepted(pattern: str) -> None:
    Compare(Field("name"), "~", pattern)


def test_missing_regex_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def fake_import(name: str, *rest: object) -> object:
        if name == "regex":
            raise ImportError(name)
        return real_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", fake_import)

    assert Predicate.parse("name = a") is not None  # Only ~ needs it.
    with pytest.raises(PredicateError, match=r"pip install 'beforehand\[history\]'"):
        Predicate.parse("name ~ a")
