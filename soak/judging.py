"""What a soak left behind, judged: a list of findings, one line each; none if all is well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from beforehand.events import Event
from beforehand.formats import read_events
from beforehand.history import History
from beforehand.ordering import PROTOCOLS
from beforehand.runtime import read_journal
from beforehand.sim.journals import record_of
from beforehand.sim.verdict import judge_record

__all__ = ["copies", "journals", "merged", "reports"]


def copies(folder: Path, names: Sequence[str]) -> list[str]:
    """All copies of the map are equal."""
    found = {name: folder / f"{name}.copy" for name in names}
    lacking = [f"map: {name} wrote no copy" for name, path in found.items() if not path.exists()]
    if lacking:
        return lacking
    texts = {name: path.read_text() for name, path in found.items()}
    first = names[0]
    return [f"map: the copies of {first} and {name} differ" for name in names if texts[name] != texts[first]]


def journals(folder: Path, names: Sequence[str]) -> tuple[list[str], int]:
    """What members did, by the judge of simulated runs, and in one order. And how many messages that were."""
    events = {name: read_journal(folder / f"{name}.db") for name in names}
    traits = PROTOCOLS["single-phase"].traits  # That of a `ReplicatedMap`.
    delivered = {name: [event.receives[0] for event in events[name] if event.receives] for name in names}
    record = record_of(events, names, traits)
    found = [f"group: {failure}"[:300] for failure in judge_record(record, traits).failures]
    found += [
        f"group: {name} and {names[0]} delivered in different orders"
        for name in names
        if delivered[name] != delivered[names[0]]
    ]
    return found, len(record.sent)


def reports(folder: Path, exported: Path) -> tuple[list[str], int]:
    """What the service acknowledged it has, once each. And how many events that were."""
    read = list(read_events(exported))
    events = [one for one in read if isinstance(one, Event)]
    found = [
        f"service: its export has a line that is no event: {one}"[:300] for one in read if not isinstance(one, Event)
    ]
    times = Counter((event.process, event.index) for event in events)
    twice = [one for one, count in times.items() if count > 1]
    if twice:
        found.append(f"service: {len(twice)} events are there twice, {twice[0]} among them")
    acknowledged = set()
    for path in sorted(folder.glob("*.acknowledged")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):  # Otherwise the member was killed while it noted this.
                report = json.loads(line)
                acknowledged.add((report["process"], report["index"]))
    lost = acknowledged - set(times)
    if lost:
        found.append(f"service: {len(lost)} events were acknowledged and are not there, {min(lost)} among them")
    if not acknowledged:
        found.append("service: it acknowledged nothing")
    checked = History(events).check()
    found += [f"service: {one.kind}: {one}"[:300] for one in checked.violations[:5]]
    return found, len(acknowledged)


def merged(outputs: Sequence[Path], published: Mapping[str, int]) -> tuple[list[str], int]:
    """Of each channel all mergers gave the same, and as much as was published, but for what they set aside."""
    texts = [path.read_bytes() if path.exists() else b"" for path in outputs]
    asides = [path.with_name(f"{path.name}.set-aside") for path in outputs]
    found = []
    first = _by_channel(texts[0])
    for path, text in zip(outputs, texts, strict=True):
        other = _by_channel(text)
        unequal = [channel for channel in sorted({*first, *other}) if first.get(channel) != other.get(channel)]
        found += [f"merge: {outputs[0].name} and {path.name} differ in {channel}" for channel in unequal]
    for path, text, aside in zip(outputs, texts, asides, strict=True):
        late = aside.read_bytes().count(b"\n") if aside.exists() else 0
        total = text.count(b"\n") + late
        if total != sum(published.values()):
            found.append(f"merge: {path.name} has {total} of {sum(published.values())} messages, {late} set aside")
    return found, texts[0].count(b"\n")


def _by_channel(text: bytes) -> dict[str, list[bytes]]:
    lines: dict[str, list[bytes]] = {}
    for line in text.splitlines():
        lines.setdefault(json.loads(line)["channel"], []).append(line)
    return lines
