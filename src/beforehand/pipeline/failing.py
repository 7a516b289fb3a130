"""What went wrong in Spark, in one line: the error in the task, not the stack of the machinery around it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["told", "told_by_jvm"]

LENGTH_MAX: Final = 400

_OURS: Final = "beforehand.errors."
_TRACEBACK: Final = "Traceback (most recent call last):"
_PYTHON_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_JAVA_ERROR: Final = re.compile(r"^(?:Exception in thread \"[^\"]*\" |Caused by: |: )?((?:\w+\.)+\w+): (.+)$")
_JAVA_START: Final = re.compile(r"^(?:Error(?: occurred during .*)?: |Invalid |Unrecognized |Could not )(.*)$")
_MEMORY: Final = re.compile(r"OutOfMemoryError|Too small maximum heap")
_MORE_MEMORY: Final = "; give Spark more memory with --conf spark.driver.memory=8g"


def told(error: BaseException) -> str:
    """One line about an exception of PySpark or py4j. Ask while the JVM still runs: the text of some lies there."""
    # Captured exceptions carry their text; to ask them for it would ask the JVM.
    text = "\n".join(
        str(part) for part in (getattr(error, "_desc", None), getattr(error, "_stackTrace", None)) if part
    )
    if not text:
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - The JVM that has the text is gone.
            return f"{type(error).__name__}: the JVM of Spark has ended; set BEFOREHAND_DEBUG=1 to see more"
    return _short(_of_task(text) or told_by_jvm(text) or type(error).__name__)


def _of_task(text: str) -> str | None:
    """The Python error that ended a task."""
    _, found, trace = text.rpartition(_TRACEBACK)
    if not found:
        return None
    for line in trace.split("\n")[1:]:
        if not line or line.startswith((" ", "\t")):
            continue
        if error := _PYTHON_ERROR.match(line.rstrip()):
            name, message = error.group(1), error.group(2) or ""
            if name.startswith(_OURS):
                return message
            return f"a task failed: {name}{': ' if message else ''}{message}"
    return None


def told_by_jvm(text: str) -> str:
    """The line that tells most: the innermost Java error, else what the launcher said first."""
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    errors = [found for line in lines if (found := _JAVA_ERROR.match(line))]
    if errors:
        name, message = errors[-1].group(1), errors[-1].group(2)
        line = message if name.endswith(("SparkException", "IllegalArgumentException")) else f"{name}: {message}"
    else:
        said = [
            line for line in lines if not line.startswith(("\t", "WARNING: Using incubator", "Setting ", "To adjust"))
        ]
        starts = [line for line in said if _JAVA_START.match(line)]
        line = (starts or said or ["it said nothing"])[0].strip()
    more = _MORE_MEMORY if _MEMORY.search(text) else ""
    return _short(line) + more


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= LENGTH_MAX else f"{line[:LENGTH_MAX]} …"
