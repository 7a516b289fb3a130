"""JavaScript's regular expressions: what they mean here, and what is refused."""

from __future__ import annotations

import builtins
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.formats.vector_logs.javascript_regex import Budget, JavaScriptRegex


def compiled(source: str) -> JavaScriptRegex:
    return JavaScriptRegex(source, what="the regex", length_max=4_000)


def found(source: str, text: str) -> str | None:
    match = compiled(source).search(text, 0, len(text), Budget(5))
    return None if match is None else text[match.start() : match.end()]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        # Braces that are no count stand for themselves; the module `regex` would read the first as a fuzzy match.
        ("x{e}", "x{e}", "x{e}"),
        ("a{,3}", "a{,3}", "a{,3}"),
        ("(?<clock>{.*})", '{"a":1}', '{"a":1}'),
        ("]}", "]}", "]}"),
        ("a{2,3}", "aaaa", "aaa"),
        ("a{2,3}?", "aaaa", "aa"),
        # Escapes of what needs none, and of letters that mean nothing.
        (r"\/\-\=\,\ ", "/-=, ", "/-=, "),
        (r"\p{L}\m\Z", "p{L}mZ", "p{L}mZ"),
        (r"\u0041\x42\cA\t\0", "AB\x01\t\0", "AB\x01\t\0"),
        # Lines end at \n only.
        (".+", "a\rb\u2028c\nd", "a\rb\u2028c"),
        ("^b$", "a\nb\nc", "b"),
        ("a$", "a\rb", None),
        # Digits and words are ASCII, blanks are not only.
        (r"\d", "٣", None),
        (r"\w+", "aé", "a"),
        (r"\S+", "a\u2003b", "a"),
        (r"[\s]", "a\ufeffb", "\ufeff"),
        (r"[^\S]", "a\u3000b", "\u3000"),
        (r"[\S]+", "a\u3000b", "a"),
        (r"\bé", "aé", "é"),
        # Character classes.
        (r"[\s\S]+", " a\n", " a\n"),
        ("[^]", "\n", "\n"),
        ("[]", "a", None),
        (r"[\w.-]+", "a-b.c!", "a-b.c"),
        (r"[\d-x]+", "1-x", "1-x"),
        (r"[a\-z]+", "b-a", "-a"),
        (r"[+--]+", "+,-.", "+,-"),
        (r"[\]\\]+", "]\\", "]\\"),
        ("[[:alpha:]]", "a]", "a]"),
        (r"[\b]", "\b", "\b"),
        ("[é-ü]", "ê", "ê"),
        ("[.*+?&|~(){}^$]+", "^.{", "^.{"),
        # Groups.
        (r"(?<a>.)\k<a>", "xyy", "yy"),
        ("(?:a|b)+(?=c)(?!d)", "xabc", "ab"),
        ("(?<=x+)a(?<!y)", "axa", "a"),
        ("(a)(b)?", "a", "a"),
    ],
)
def test_means_what_javascript_means(source: str, text: str, expected: str | None) -> None:
    assert found(source, text) == expected


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("(", "not closed"),
        (")", "closes nothing"),
        ("[a", "not closed"),
        ("a\\", "backslash"),
        ("*a", "nothing to repeat"),
        ("a**", "nothing to repeat"),
        ("a++", "nothing to repeat"),  # Possessive elsewhere.
        ("^*", "nothing to repeat"),
        ("a{2}{3}", "nothing to repeat"),
        ("[z-a]", "backwards"),
        ("a{3,2}", "min repeat"),
        ("(?i)a", "JavaScript does not have"),
        ("(?P<a>x)", "JavaScript does not have"),
        ("(?>a)", "JavaScript does not have"),
        ("(?R)", "JavaScript does not have"),
        ("(?<1>x)", "JavaScript does not have"),
        ("(?<a>x)(?<a>y)", "two groups are named a"),
        (r"(x)\1", "numbered back-references"),
        (r"\k<no>", "unknown group"),
        ("(" * 60 + ")" * 60, "nested deeper"),
        ("(((a{999}){999}){999}){999}", "multiply"),
        ("x" * 5_000, "5000 characters"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(source: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        compiled(source)

    assert str(error.value).startswith("the regex ")
    assert "\n" not in str(error.value)


def test_missing_groups_are_named() -> None:
    with pytest.raises(InputError, match=r"lacks \(\?<host>\.\.\.\), \(\?<event>\.\.\.\)"):
        compiled("(?<clock>.*)").require("host", "clock", "event")


@pytest.mark.parametrize("source", ["^(?:(?:a|a)+)+$", "(?:(?:a|aa)+)+$"])
def test_catastrophic_pattern_is_stopped(source: str) -> None:
    regex = compiled(source)

    with pytest.raises(InputError, match=r"took more than 0\.2 s"):
        regex.search("a" * 60 + "b", 0, 61, Budget(0.2))


def test_budget_is_for_all_searches_together() -> None:
    regex = compiled("(?<a>.)c")
    budget = Budget(0.001)
    budget.spend(0.002)

    with pytest.raises(InputError, match="took more than"):
        regex.search("b" * 10_000, 0, 10_000, budget)


def test_without_the_module_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name == "regex":
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)

    with pytest.raises(InputError, match="pip install"):
        compiled("a")


@given(st.text("ab(){}[]?*+|\\.^$<>:=!-,1kuxdswS\n", max_size=20), st.text("ab({-\n", max_size=20))
def test_any_pattern_is_used_or_refused(source: str, text: str) -> None:
    with suppress(InputError):
        found(source, text)
