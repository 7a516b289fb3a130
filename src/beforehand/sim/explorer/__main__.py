"""`python -m beforehand.sim.explorer`: explore protocols fully, or print the property matrix."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from beforehand.ordering import PROTOCOLS
from beforehand.sim.explorer.campaign import Progress, explore_all
from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.matrix import matrix
from beforehand.sim.explorer.page import matrix_page
from beforehand.sim.explorer.plan import explorable, unexplored

__all__ = ["main"]

KINDS = ("bare", "link", "departures", "joins")


def main(arguments: list[str] | None = None) -> int:
    """0 if nothing was found, 1 if a protocol broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m beforehand.sim.explorer", description=__doc__)
    parser.add_argument("protocols", nargs="*", help=f"of: {', '.join(PROTOCOLS)} (default: all)")
    parser.add_argument("--messages", type=int, default=4, help="at most so many (default: 4)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of part; may be repeated")
    parser.add_argument("--states-max", type=int, default=None, help="give up a configuration with more states")
    parser.add_argument("--stride", type=int, default=1, help="take every so-many-th configuration only")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the work (default: 1)")
    parser.add_argument("--to", type=Path, default=Path("exploration"), help="folder for progress and findings")
    parser.add_argument("--matrix", action="store_true", help="print the property matrix with its counterexamples")
    parser.add_argument("--page", type=Path, default=None, help="write the property matrix as a page of the docs")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.protocols if name not in PROTOCOLS]
    if unknown or options.messages < 1 or options.stride < 1 or options.workers < 1:
        parser.error(f"there is no protocol {unknown[0]!r}" if unknown else "numbers are positive")
    for name in options.protocols:
        if why := unexplored(PROTOCOLS[name], options.kind or KINDS):
            parser.error(why)
    chosen = [PROTOCOLS[name] for name in options.protocols or PROTOCOLS if explorable(PROTOCOLS[name])]
    if options.page is not None:
        options.page.write_text(matrix_page(matrix(chosen, messages_max=3, messages_explored=1)), encoding="utf-8")
        return 0
    if options.matrix:
        return _print_matrix(chosen, options.messages)
    results = explore_all(
        chosen,
        options.to,
        messages_max=options.messages,
        kinds=options.kind or KINDS,
        states_max=options.states_max,
        stride=options.stride,
        workers=options.workers,
        tell=_tell,
        found=_found,
    )
    states, seconds = sum(r.states for r in results), sum(r.seconds for r in results)
    findings, cut = sum(r.findings for r in results), sum(r.cut_short for r in results)
    sys.stdout.write(
        f"{sum(r.done for r in results)} configurations, {states} states, {seconds:.0f} s, "
        f"{states / max(seconds, 0.001):.0f} states/s, {cut} cut short, {findings} findings\n"
    )
    return 1 if findings else 0


def _print_matrix(protocols: list[object], messages: int) -> int:
    rows = matrix(protocols, messages_max=messages)
    for row in rows:
        verdicts = "  ".join(f"{order}: {verdict}" for order, verdict in row.verdicts.items())
        sys.stdout.write(f"{row.protocol:18} {verdicts}\n")
    for row in rows:
        for finding in [*row.breaches, *row.counterexamples.values()]:
            sys.stdout.write(f"\n{finding.text()}\n")
    return 1 if any(row.breaches for row in rows) else 0


def _tell(progress: Progress) -> None:
    sys.stderr.write(
        f"{progress.part}: {progress.done} configurations, {progress.states} states, {progress.seconds:.1f} s"
        f"{', complete' if progress.complete else ''}\n"
    )


def _found(finding: Counterexample) -> None:
    sys.stderr.write(f"{finding}\n")


if __name__ == "__main__":
    sys.exit(main())
