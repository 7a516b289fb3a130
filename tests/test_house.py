"""The house keeps its order: imports go upwards only, the light rooms stay light, files stay readable."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import beforehand
from measuring import slow_tests

ROOT = Path(__file__).parent.parent
TESTS = Path(__file__).parent
PACKAGE = ROOT / "src" / "beforehand"

# From the top of the house to its bottom: a room may import itself and the rooms above it.
ROOMS = [
    "errors",
    "events",
    "clocks",
    "ordering",
    "formats",
    "predicate",
    "history",
    "diagram",
    "sim",
    "reporting",
    "runtime",
    "rpc",
    "pipeline",
    "service",
    "notebook",
    "cli",
]
STANDARD_LIBRARY_ONLY = ["errors", "events", "clocks", "ordering", "diagram"]
FILES = sorted(PACKAGE.rglob("*.py"))
EXPORTING = sorted(p for p in PACKAGE.rglob("__init__.py") if p.parent != PACKAGE)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            names.add(node.module)
            # `from beforehand.history import cuts` imports a module too.
            names.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "beforehand")
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_upwards_only(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    allowed = ROOMS[: ROOMS.index(room) + 1]
    for module in imported_modules(path):
        if module.startswith("beforehand."):
            assert module.split(".")[1] in [*allowed, "__version__"], f"{room} must not import {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_light_rooms_import_the_standard_library_only(path: Path) -> None:
    if room_of(path) in STANDARD_LIBRARY_ONLY:
        foreign = {module.split(".")[0] for module in imported_modules(path)} - sys.stdlib_module_names
        assert foreign <= {"beforehand"}


@pytest.mark.parametrize("room", [room for room in STANDARD_LIBRARY_ONLY if (PACKAGE / room).is_dir()])
def test_light_rooms_load_without_any_third_party_package(room: str) -> None:
    # -I and -S: no site-packages, so an import of anything else fails.
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import beforehand.{room}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", EXPORTING, ids=lambda path: str(path.parent.relative_to(PACKAGE)))
def test_a_room_exports_what_it_says_and_nothing_else(path: Path) -> None:
    name = ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    module = importlib.import_module(name)
    for exported in module.__all__:
        assert hasattr(module, exported)
    # An __init__ only re-exports: a docstring, imports and __all__; or late, where an import is heavy: a table of
    # places, the same imports for type checkers, and the __getattr__ that looks names up.
    for node in ast.parse(path.read_text()).body:
        plain = isinstance(node, ast.Expr | ast.Import | ast.ImportFrom)
        late = ast.unparse(node).startswith(("if TYPE_CHECKING:", "_PLACES: Final = ", "def __getattr__("))
        assert plain or late or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_can_be_read_in_one_sitting_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 450
    assert ast.get_docstring(ast.parse(text)), "the first lines say what the module guarantees"
    assert path.stem not in ("utils", "common", "helpers", "manager", "misc")


def test_the_version_stands_in_one_place_and_in_the_changelog() -> None:
    assert "version" not in (ROOT / "pyproject.toml").read_text().split("[project.optional")[0].replace(
        "dynamic", ""
    ).split("requires-python")[0].replace('["version"]', "")
    assert f"## {beforehand.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_pins_name_no_registry_and_every_requirement_is_hashed() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text()
        assert "://" not in text
        assert "--find-links" not in text
        entries = [block for block in text.replace("\\\n", " ").splitlines() if "==" in block]
        assert entries
        assert all("--hash=sha256:" in entry for entry in entries)


def test_every_test_that_is_called_slow_is_there() -> None:
    for name in slow_tests():
        file, _, function = name.partition("::")
        assert f"def {function}(" in (TESTS / file).read_text(encoding="utf-8"), (
            f"{name}: measure again, see measuring.py"
        )
