"""ShiViz logs: headers, regexes, executions, clocks, what is left over, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.vector_logs.layouts import choose_layout, guess_format
from beforehand.formats.vector_logs.shiviz import read_shiviz
from beforehand.formats.vector_logs.whole_text import TextLimits
from beforehand.history import History
from random_histories import Step
from vector_logs import check_order, clocks, random_history, split

TSVIZ = r"(?<timestamp>(\d*)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
AKKA = r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://Broadcast/user/(?<host>\w+)\] (?<clock>.*\}) (?<event>.*)"
DELIMITER = "^=== (?<trace>.*) ===$"
DEFAULT = r"^(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
ONE_LINE = r"^(?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)$"


def read(
    text: str | bytes, *, regex: str | None = None, delimiter: str | None = None, limits: TextLimits | None = None
) -> tuple[list[Event], list[Rejection]]:
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    return split(read_shiviz(stream, file="f", regex=regex, delimiter=delimiter, limits=limits or TextLimits()))


def test_header_says_how_to_read_the_file() -> None:
    events, rejections = read(f'{ONE_LINE}\n\na {{"a":1}} one\na {{"a":2}} two\n')

    assert not rejections
    assert [(str(e.id), e.name) for e in events] == [("a:1", "one"), ("a:2", "two")]


def test_header_may_have_a_delimiter_with_labels() -> None:
    events, rejections = read(
        f'{ONE_LINE}\n{DELIMITER}\na {{"a":1}} before\n=== x (1) \\ # ===\n'
        'a {"a":1} one\n=== y ===\na {"a":1} two\n'
    )

    assert not rejections
    assert [(e.execution, e.name) for e in events] == [("", "before"), ("x (1) \\ #", "one"), ("y", "two")]


def test_header_may_have_only_a_delimiter() -> None:
    events, rejections = read(f'\n{DELIMITER}\n=== x ===\none\na {{"a":1}}\n=== y ===\ntwo\na {{"a":1}}\n')

    assert not rejections
    assert [(e.execution, e.name) for e in events] == [("x", "one"), ("y", "two")]


def test_header_without_a_log_gives_nothing() -> None:
    assert read(f"\n{DELIMITER}\n=== x ===\n") == ([], [])
    assert read(ONE_LINE) == ([], [])


def test_second_line_that_delimits_nothing_is_a_line_of_the_log() -> None:
    events, rejections = read(f'{ONE_LINE}\na {{"a":1}} one\na {{"a":2}} two\n')

    assert not rejections
    assert [e.name for e in events] == ["one", "two"]


def test_what_the_caller_gives_overrides_the_header() -> None:
    events, rejections = read(
        '(?<event>.)(?<host>.)(?<clock>.)\n^no$\na {"a":1} one\n--\na {"a":1} two\n',
        regex=ONE_LINE,
        delimiter="^--$",
    )

    assert [(e.execution, e.name) for e in events] == [("", "one"), ("1", "two")]
    assert [r.line for r in rejections] == [2]  # "^no$" delimits nothing, so it is text.


def test_blank_executions_are_left_out_and_equal_labels_told_apart() -> None:
    events, rejections = read(
        'one\na {"a":1}\n=== x ===\n\n=== x ===\ntwo\na {"a":1}\n'
        '=== x ===\nthree\na {"a":1}\n=== x (2) ===\nfour\na {"a":1}',
        delimiter=DELIMITER,
    )

    assert [(e.execution, e.name) for e in events] == [
        ("", "one"),
        ("x", "two"),
        ("x (3)", "three"),
        ("x (2)", "four"),
    ]
    assert [(r.reason, r.line, r.text) for r in rejections] == [("execution-twice", 8, "x")]


def test_groups_become_attributes_and_times() -> None:
    regex = r"(?<timestamp>\S*) (?<date>\S*) (?<path>\S*)( (?<none>!))? (?<event>.*)\n(?<host>\S*) (?<clock>.*)"
    events, rejections = read(
        '7 2026-01-31T12:00:00Z /p one\na {"a":1}\n- 1970-01-01T00:00:01Z /p two\na {"a":2}\n'
        '1.5 24/05/2013 /p three\na {"a":3}',
        regex=regex,
    )

    assert not rejections
    assert [(e.time, e.attributes) for e in events] == [
        (7, {"date": "2026-01-31T12:00:00Z", "path": "/p"}),
        (1_000_000_000, {"timestamp": "-", "path": "/p"}),
        (None, {"timestamp": "1.5", "date": "24/05/2013", "path": "/p"}),
    ]


@pytest.mark.parametrize(
    ("clock", "reason", "says"),
    [
        ('{"a":1', "not-a-clock", "not usable JSON"),
        ("[1]", "not-a-clock", "not an object"),
        ('{"a":{"b":1}}', "not-a-clock", "not an integer"),
        ('{"a":1.0}', "not-a-clock", "1.0"),
        ('{"a":true}', "not-a-clock", "true"),
        ('{"a":"1"}', "not-a-clock", "not an integer"),
        ('{"a":1,"b":-1}', "not-a-clock", "-1"),
        ('{"a":9223372036854775808}', "not-a-clock", "9223372036854775808"),
        ('{"a":1e400}', "not-a-clock", "not usable JSON"),
        ('{"a":1,"b":2,"a":3}', "not-a-clock", "twice"),
        ('{"a":' + "[" * 50 + "]" * 50 + "}", "not-a-clock", "nested"),
        ('{"\\ud800":1,"a":1}', "not-a-clock", "not usable JSON"),
        ("", "not-a-clock", "not usable JSON"),
        ('{"b":1}', "no-own-entry", '"a"'),
        ('{"a":0}', "no-own-entry", '"a"'),
    ],
)
def test_record_is_refused_with_its_line_in_the_file(clock: str, reason: str, says: str) -> None:
    events, [rejection] = read(
        f'one\na {{"a":1}}\n=== x ===\ntwo\na {clock}\nthree\na {{"a":2}}\n',
        regex=r"(?<event>.*)\n(?<host>\w+) (?<clock>.*)",
        delimiter=DELIMITER,
    )

    assert [e.name for e in events] == ["one", "three"]
    assert (rejection.reason, rejection.file, rejection.line) == (reason, "f", 4)
    assert rejection.text == f"two\na {clock}"[:200]
    assert says in rejection.detail
    assert "line 5" in rejection.detail


def test_process_without_a_name_is_refused() -> None:
    _, [rejection] = read('one\n {"":1}\n', regex=r"(?<event>.*)\n(?<host>\w*) (?<clock>.*)")

    assert rejection.reason == "not-an-event"


def test_clock_with_escaped_quotes_is_read_as_tla_writes_it() -> None:
    [event], _ = read('a {\\"a\\":1} x', regex=ONE_LINE)

    assert event.clock == {"a": 1}


def test_gaps_and_repetitions_are_not_refused_here() -> None:
    events, rejections = read('x\na {"a":3}\ny\na {"a":3}\nz\na {"a":9}\n')

    assert not rejections
    assert [e.index for e in events] == [3, 3, 9]


def test_lines_that_match_nothing_are_one_rejection_per_run() -> None:
    events, rejections = read(
        '\nhead\n\nmore\na {"a":1} one\n\n   \na {"a":2} two\nmid ü\na {"a":3} three\ntail', regex=ONE_LINE
    )

    assert [e.name for e in events] == ["one", "two", "three"]
    assert [(r.reason, r.line, r.text) for r in rejections] == [
        ("unmatched", 2, "head\n\nmore"),
        ("unmatched", 9, "mid ü"),
        ("unmatched", 11, "tail"),
    ]
    assert rejections[0].detail.startswith("2 line(s)")


def test_what_is_left_of_matched_lines_is_told_once() -> None:
    regex = r"(?<host>\w+)=(?<clock>\{.*?\}) (?<event>\w+)"
    events, [rejection] = read('INFO a={"a":1} one;\n\n[x] a={"a":2} two\na={"a":3} three \n', regex=regex)

    assert len(events) == 3
    assert (rejection.reason, rejection.line, rejection.text) == ("unmatched", 1, "INFO")
    assert rejection.detail.startswith("3 line(s)")


def test_wrong_regex_leaves_all_of_the_text_unmatched() -> None:
    events, [rejection] = read('one\na {"a":1}\n', regex="nothing(?<host>)(?<clock>)(?<event>)")

    assert not events
    assert (rejection.reason, rejection.line, rejection.text) == ("unmatched", 1, 'one\na {"a":1}')


def test_regex_that_matches_nothing_at_all_ends() -> None:
    events, [rejection] = read("one\ntwo", regex="(?<host>x?)(?<clock>)(?<event>)", delimiter="y*")

    assert not events
    assert rejection.reason == "unmatched"


@pytest.mark.parametrize(
    ("regex", "delimiter", "says"),
    [
        ("(?<host>", None, "the regex .* not closed"),
        ("(?<host>.)", None, r"the regex .* lacks \(\?<clock>"),
        (None, "(", "the delimiter .* not closed"),
    ],
)
def test_unusable_regex_is_an_error_at_once(regex: str | None, delimiter: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_shiviz(io.BytesIO(b""), regex=regex, delimiter=delimiter)


def test_unusable_regex_in_a_file_does_not_matter_if_another_is_given() -> None:
    events, _ = read('(?<host>.)(?<clock>.)(?<event>.**)\n(?<trace>\na {"a":1} x', regex=ONE_LINE, delimiter="^-$")

    assert [e.name for e in events] == ["x"]


def test_unusable_regex_in_a_file_names_the_file() -> None:
    with pytest.raises(InputError, match=r"f: the regex in line 1 .* nothing to repeat"):
        read("(?<host>.)(?<clock>.)(?<event>.**)\n\nx")


def test_catastrophic_regex_is_an_error_in_time() -> None:
    with pytest.raises(InputError, match="took more than 1 s"):
        read("a" * 60 + "b", regex="(?<host>(?:a|a)+)+(?<clock>)(?<event>)$", limits=TextLimits(match_seconds_max=1))


def test_text_beyond_the_limit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "big.log.gz"
    path.write_bytes(gzip.compress(b"x\n" * 600))

    with pytest.raises(InputError, match=r"big\.log\.gz: more than 1000 bytes"):
        list(read_shiviz(path, limits=TextLimits(text_bytes_max=1_000)))


def test_missing_file_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        read_shiviz(tmp_path / "missing")


def test_broken_compression_keeps_the_text_before_it(tmp_path: Path) -> None:
    path = tmp_path / "cut.log.gz"
    text = b"".join(b'event %d\na {"a":%d}\n' % (n * 7919, n) for n in range(1, 20_000))
    whole = gzip.compress(text)
    path.write_bytes(whole[: len(whole) // 2])

    events, rejections = split(read_shiviz(path))

    assert len(events) > 5_000
    assert "unreadable" in {r.reason for r in rejections}


def test_bytes_that_are_not_utf8_are_replaced_and_counted_once() -> None:
    events, rejections = read(
        b'ok\na {"a":1}\nbad \xff\na {"a":2}\n\xe2\x82\na {"a":3}\r\nende \xc3\xbc\r\na {"a":4}\r\n'
    )

    assert [e.name for e in events] == ["ok", "bad \ufffd", "\ufffd", "ende ü"]
    assert [(r.reason, r.line, r.text) for r in rejections] == [("encoding", 3, "bad \ufffd")]
    assert rejections[0].detail.startswith("2 line(s)")


def test_too_long_line_is_told_and_the_rest_is_read() -> None:
    text = 'one\na {"a":1}\n' + "x" * 5_000 + '\ntwo\na {"a":2}\n' + "y" * 5_000 + '\na {"a":3}\n'
    events, rejections = read(text, limits=TextLimits(line_bytes_max=100, text_max=5))

    assert [(e.index, e.name) for e in events] == [(1, "one"), (2, "two"), (3, "")]
    assert [(r.reason, r.line, r.text) for r in rejections] == [
        ("line-too-long", 3, "xxxxx"),
        ("line-too-long", 6, "yyyyy"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        "} " * 500_000,
        "x {" * 300_000,
        "7" * 1_000_000,
        "=== " + " " * 1_000_000,
        "=== " + "=== " * 250_000 + "x",
        "=== " + "===" * 300_000 + "x",
        'a {"a":1}\n' + '"' * 400_000 + " {" + '"' * 400_000 + "}",
        'a {"a":1}\na {' + '"a"' * 300_000,
        'a {"a":1}\na {' + '"a"' * 300_000 + "}",
        "INFO" + " " * 1_000_000,
        'a {"a":1}\nINFO' + " " * 1_000_000,
        "\n".join(["=== x ===", "y"] * 20_000),
    ],
    ids=range(13),
)
def test_a_megabyte_of_anything_is_no_trouble(line: str) -> None:
    started = time.process_time()

    read(line + "\n" + line)
    with suppress(InputError):  # A caller's regex may be too slow for such a line, but says so in time.
        read("\n" + line, regex=DEFAULT, delimiter=DELIMITER, limits=TextLimits(match_seconds_max=1))

    assert time.process_time() - started < 10  # Measured: 0.3 s, or the limit. Quadratic time would be minutes.


class Endless:
    def read(self, size: int, /) -> bytes:
        return b"x" * size


def test_endless_line_ends_at_the_limit() -> None:
    with pytest.raises(InputError, match="the stream: more than 5000000 bytes"):
        list(read_shiviz(Endless(), limits=TextLimits(text_bytes_max=5_000_000)))


@given(st.lists(st.sampled_from(["record", "noise", "noise ü", "", "  "]), max_size=30))
def test_every_line_is_an_event_or_told(kinds: list[str]) -> None:
    lines = [f'a {{"a":{number}}} text' if kind == "record" else kind for number, kind in enumerate(kinds, start=1)]

    events, rejections = read("\n".join(lines), regex=ONE_LINE)

    assert [e.index for e in events] == [number for number, kind in enumerate(kinds, start=1) if kind == "record"]
    assert sum(int(r.detail.split()[0]) for r in rejections) == sum(kind.startswith("noise") for kind in kinds)
    assert all(kinds[(r.line or 0) - 1].startswith("noise") for r in rejections)


@pytest.mark.parametrize("data", [b"", b"\n\n \n", b"\xef\xbb\xbf"])
def test_empty_file_gives_nothing(data: bytes) -> None:
    assert read(data) == ([], [])


def test_binary_file_gives_findings() -> None:
    _, rejections = read(bytes(range(256)) * 50)

    assert [r.reason for r in rejections] == ["encoding", "unmatched"]


def test_utf16_is_named() -> None:
    _, rejections = read('one\na {"a":1}\n'.encode("utf-16"))

    assert "UTF-16" in rejections[0].detail


def shuffled_shiviz(seed: int) -> tuple[list[Step], bytes]:
    random, steps = random_history(seed)
    records = []
    for at, (step, clock) in enumerate(zip(steps, clocks(steps), strict=True)):
        entries = dict(random.sample(list(clock.items()), len(clock)))  # Keys come in any order.
        records.append(f"event {at} of {step.process}\n{step.process} {json.dumps(entries)}")
    random.shuffle(records)
    return steps, "\n".join(records).encode()


@given(st.integers(0, 10**9))
def test_log_gives_back_the_order_that_it_was_written_from(seed: int) -> None:
    steps, data = shuffled_shiviz(seed)

    events, rejections = read(data)

    assert not rejections
    history = check_order(events, steps)
    assert history.check().counts["clock"] == 0


@given(st.integers(0, 10**9), st.data())
def test_damaged_log_gives_findings_and_nothing_else(seed: int, data: st.DataObject) -> None:
    _, written = shuffled_shiviz(seed)
    damaged = bytearray(written)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 20))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"}", b"\n", b"\r", b" ", b"0", b"\n=== x ===\n"])
        )

    events, _ = read(bytes(damaged))

    History.by_execution(events)


@given(
    st.text(st.sampled_from('ab {}":12,\n\r=x\\\xfc'), max_size=80),
    st.sampled_from([None, ONE_LINE, TSVIZ, AKKA, DEFAULT]),
    st.sampled_from([None, DELIMITER, "^=+", "x*"]),
)
def test_any_text_gives_findings_and_loses_nothing(text: str, regex: str | None, delimiter: str | None) -> None:
    events, rejections = read(text, regex=regex, delimiter=delimiter)

    History.by_execution(events)
    if text.strip() and delimiter is None:
        assert events or rejections


@given(st.binary(max_size=200))
def test_any_bytes_give_findings(data: bytes) -> None:
    split(read_shiviz(io.BytesIO(data)))
    choose_layout(data.decode("latin-1"))
    guess_format(data)
