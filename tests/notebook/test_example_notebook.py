"""The notebook of examples/ runs from its first cell to its last, and what its cells end with shows itself."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("spark")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "what-led-to-this.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    namespace: dict[str, Any] = {}
    shown = []
    for cell in document["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [], "outputs are not kept in the repository"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1]
        ends = isinstance(last, ast.Expr)
        exec(compile(ast.Module(tree.body[:-1] if ends else tree.body, []), cell["id"], "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), namespace)
            shown.append(value._repr_html_() if value is not None and hasattr(value, "_repr_html_") else "")
    assert sum(map(bool, shown)) == 7
    assert "orders:17" in shown[2]
