"""Every decoder and reader is attacked a little in every run of the tests; `make fuzz` goes on for longer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.running import Target, attack, main
from fuzz.targets import targets

TARGETS = {target.name: target for target in targets()}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_a_stranger_sends_is_more_than_refused(name: str) -> None:
    found = attack(TARGETS[name], seed=1, count=1_000)
    assert found == [], "\n".join(one.why for one in found)


def test_an_error_that_was_not_promised_is_a_finding() -> None:
    def weak(data: bytes) -> None:
        if b"1e999" in data:
            raise KeyError(data)

    found = attack(Target("weak", (b'{"a": 5}',), weak), seed=1, count=2_000)
    assert [one.target for one in found] == ["weak"] * len(found)
    assert "KeyError" in found[0].why


def test_a_target_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0", "nothing"]) == 2
    assert "native-line" in capsys.readouterr().err
