"""Reports a file of native events to a store in batches, from a line on, and says each batch that was acknowledged.

python reporting_process.py STORE FILE FIRST SEED
"""

from __future__ import annotations

import sys
from random import Random

from beforehand.events import Event
from beforehand.formats import read_events
from beforehand.service import Ingest, Settings, Store


def main(store: str, file: str, first: str, seed: str) -> None:
    random = Random(int(seed))
    reports = [event for event in read_events(file) if isinstance(event, Event)]
    at = int(first)
    with Store(store, settings=Settings(deadline_ns=0, steps_max=random.choice([3, 20_000]))) as opened:
        ingest = Ingest(opened)
        while at < len(reports):
            end = at + random.randint(1, 60)
            ingest.report(reports[at:end])
            at = min(end, len(reports))
            sys.stdout.write(f"{at}\n")
            sys.stdout.flush()
            if random.random() < 0.3:
                ingest.settle()


if __name__ == "__main__":
    main(*sys.argv[1:])
