"""The modules of the page as one script: in order, whole, and only what is understood."""

from __future__ import annotations

import re

import pytest

from beforehand.diagram.page.sources import drawn_frame, drawn_script, joined_modules, shared_files


def test_a_module_comes_after_those_that_it_imports() -> None:
    script = joined_modules(
        {
            "main.js": 'import { b } from "./b.js";\nimport { a as first } from "../other/a.js";\nrun(first, b);\n',
            "b.js": 'import { a } from "./a.js";\nexport class b { x = a; }\n',
            "a.js": "// Why.\nexport const a = 1;\nconst c = 2;\nexport { c };\n",
        },
        "main.js",
    )

    assert [
        re.findall(r'^modules\["(\w+\.js)"\]', line)[0] for line in script.splitlines() if "= (() =>" in line
    ] == [
        "a.js",
        "b.js",
        "main.js",
    ]
    assert 'const { a: first } = modules["a.js"];' in script
    assert "return { a, c };" in script
    assert "return { b };" in script
    assert "Why" not in script


def test_what_nobody_imports_is_left_out() -> None:
    assert "secret" not in joined_modules({"main.js": "run();\n", "b.js": "secret();\n"}, "main.js")


@pytest.mark.parametrize(
    ("sources", "wrong"),
    [
        ({"main.js": 'import { a } from "./a.js";\n'}, r"main\.js imports a\.js, which is not there"),
        ({"main.js": 'import * as a from "./a.js";\n'}, "not known here: import"),
        ({"main.js": "export default 1;\n"}, "not known here: export default"),
        ({"main.js": "export let a = 1;\n"}, "not known here: export let"),
        (
            {"main.js": 'import { a } from "./a.js";\n', "a.js": 'import { b } from "./main.js";\n'},
            r"circle: main\.js -> a\.js -> main\.js",
        ),
        ({"main.js": 'const a = "</SCRIPT>";\n'}, "could end its element"),
        ({"main.js": 'const a = "<!--";\n'}, "could end its element"),
    ],
    ids=["missing", "star", "default", "let", "circle", "end", "comment"],
)
def test_what_is_not_understood_is_refused(sources: dict[str, str], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        joined_modules(sources, "main.js")


def test_a_file_has_nothing_that_only_a_service_can_do() -> None:
    script = drawn_script()

    assert "given.js" in script
    assert not re.search(
        r"await fetch\(|XMLHttpRequest|WebSocket|EventSource|new Headers|sessionStorage|Authorization|/api/imports",
        script,
    )
    assert 'id="token"' not in drawn_frame()


def test_our_modules_take_no_markup_and_stay_small() -> None:
    for name, text in shared_files().items():
        assert text.count("\n") <= 400, name
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(markup, drawn_script())
    assert max(len(part.splitlines()) for part in drawn_script().split("\nmodules[")) <= 400


def test_the_frame_has_no_script_no_handler_and_no_address() -> None:
    assert not re.search(r"<script|\son[a-z]+=|\sstyle=|\s(?:src|href)=", drawn_frame())
