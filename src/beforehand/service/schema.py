"""The tables of a store, and how its file is opened.

Processes and executions are numbers; names stand once. One writer keeps all of it in step.

    executions  one row each; `latest`: the greatest causal time so far; `raising`: stamps are being raised
    processes   `newest`: greatest index here; `stamped`: greatest index with a stamp; `complete`: all up to this
                index are complete; `claimed`: greatest index that was given up though a reported clock names it
    events      key (process, idx). `state` WAITING or STAMPED. `stamp`: what changed against the event before on the
                process (own entry left out), everything where `full` is 1. `clock`: as reported; NULL and `clocked`
                1: equal to the stamp. While an event waits, causal_time and past_size are its own time and index
    holes       indexes below `newest` that are not here, as intervals
    sends, receives  messages. `cut` 1: the receive was rejected as part of a cycle
    unsent      receives without a reported clock whose send was not here when they came and has no stamp yet
    claims      (process, idx) that an event's clock names and that was given up
    waits       events that wait, each on one thing: an event, a message, or '' (stamps are being raised)
    wakes       events stamped whose waiting events were not all looked at yet
    blocked     processes whose `complete` stands still though the next event is stamped, and on what; 0: look again
    raises      late causes whose effects are not all raised yet
    journal     what became of events, in order: the cursor of subscriptions
    conflicts, rejected, findings   reports that differ from the first one; what was refused; wrong clocks

Since version 2:

    processes.removed  all up to this index was removed by retention, or will never be taken
    processes.pruned   no stamp has an entry for it any more; see pruning.py
    subscriptions      see subscriptions/registered.py; `cursor` is a place in the journal
    traces, spans      spans and log records of OpenTelemetry that are no events yet; see otlp.py
    lanes              of log records without a trace: the last index given
    marks              how far the journal was at some times: retention goes by the time of arrival

A store of an older version is brought up to date when it is opened, in one transaction.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from beforehand.errors import InputError

__all__ = [
    "ARRIVED",
    "COMPLETED",
    "CONFLICTED",
    "NO_TIME",
    "PLACED",
    "STAMPED",
    "VERSION",
    "WAITING",
    "create",
]

VERSION: Final = 2
_APPLICATION: Final = 0x42464F52  # Tells a store from any other SQLite file.

NO_TIME: Final = -(2**63)
"""In place of a missing time, as in `beforehand.history`: less than every time."""

WAITING, STAMPED = 0, 1  # events.state

ARRIVED: Final = 1  # journal.what, added together: the report was stored,
PLACED: Final = 2  # the event got its stamp,
COMPLETED: Final = 4  # all its past is here,
CONFLICTED: Final = 8  # a report of it that differs was kept.

_TABLES: Final = """
CREATE TABLE counts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE executions(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, latest INTEGER NOT NULL, events INTEGER NOT NULL,
    processes INTEGER NOT NULL, raising INTEGER NOT NULL);
CREATE INDEX executions_latest ON executions(latest);
CREATE TABLE processes(
    id INTEGER PRIMARY KEY, execution INTEGER NOT NULL, name TEXT NOT NULL, newest INTEGER NOT NULL,
    stamped INTEGER NOT NULL, complete INTEGER NOT NULL, claimed INTEGER NOT NULL, events INTEGER NOT NULL,
    UNIQUE(execution, name));
CREATE TABLE events(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, execution INTEGER NOT NULL, arrival INTEGER NOT NULL,
    state INTEGER NOT NULL, time INTEGER, name TEXT NOT NULL, content BLOB, clock BLOB, clocked INTEGER NOT NULL,
    causal_time INTEGER NOT NULL, past_size INTEGER NOT NULL, "full" INTEGER NOT NULL, stamp BLOB,
    PRIMARY KEY(process, idx)) WITHOUT ROWID;
CREATE INDEX events_in_order ON events(execution, causal_time, past_size, process, idx);
CREATE TABLE holes(
    process INTEGER NOT NULL, "first" INTEGER NOT NULL, "last" INTEGER NOT NULL, PRIMARY KEY(process, "first"))
    WITHOUT ROWID;
CREATE TABLE sends(
    execution INTEGER NOT NULL, message TEXT NOT NULL, process INTEGER NOT NULL, idx INTEGER NOT NULL,
    PRIMARY KEY(execution, message)) WITHOUT ROWID;
CREATE TABLE receives(
    execution INTEGER NOT NULL, message TEXT NOT NULL, process INTEGER NOT NULL, idx INTEGER NOT NULL,
    cut INTEGER NOT NULL, PRIMARY KEY(execution, message, process)) WITHOUT ROWID;
CREATE TABLE unsent(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, message TEXT NOT NULL, execution INTEGER NOT NULL,
    PRIMARY KEY(process, idx, message)) WITHOUT ROWID;
CREATE INDEX unsent_message ON unsent(execution, message);
CREATE TABLE claims(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, by_process INTEGER NOT NULL, by_idx INTEGER NOT NULL,
    PRIMARY KEY(process, idx, by_process, by_idx)) WITHOUT ROWID;
CREATE INDEX claims_by ON claims(by_process, by_idx);
CREATE TABLE waits(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, execution INTEGER NOT NULL, on_process INTEGER, on_idx INTEGER,
    on_message TEXT, since INTEGER NOT NULL, expired INTEGER NOT NULL, PRIMARY KEY(process, idx)) WITHOUT ROWID;
CREATE INDEX waits_on_event ON waits(on_process, on_idx) WHERE on_process IS NOT NULL;
CREATE INDEX waits_on_message ON waits(execution, on_message) WHERE on_message IS NOT NULL;
CREATE INDEX waits_since ON waits(expired, since);
CREATE TABLE wakes(process INTEGER NOT NULL, idx INTEGER NOT NULL, PRIMARY KEY(process, idx)) WITHOUT ROWID;
CREATE TABLE blocked(
    process INTEGER PRIMARY KEY, execution INTEGER NOT NULL, on_process INTEGER, on_idx INTEGER, on_message TEXT);
CREATE INDEX blocked_on_process ON blocked(on_process, on_idx) WHERE on_process IS NOT NULL;
CREATE INDEX blocked_on_message ON blocked(execution, on_message) WHERE on_message IS NOT NULL;
CREATE TABLE raises(
    id INTEGER PRIMARY KEY, execution INTEGER NOT NULL, cause_process INTEGER NOT NULL, cause_idx INTEGER NOT NULL,
    process INTEGER NOT NULL, idx INTEGER NOT NULL, message TEXT, at_process INTEGER NOT NULL,
    at_idx INTEGER NOT NULL, old BLOB);
CREATE TABLE journal(seq INTEGER PRIMARY KEY, process INTEGER NOT NULL, idx INTEGER NOT NULL, what INTEGER NOT NULL);
CREATE TABLE conflicts(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, digest BLOB NOT NULL, seq INTEGER NOT NULL,
    report BLOB NOT NULL, PRIMARY KEY(process, idx, digest)) WITHOUT ROWID;
CREATE TABLE rejected(
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, execution TEXT, reason TEXT NOT NULL, detail TEXT NOT NULL,
    message TEXT, events TEXT NOT NULL, text TEXT NOT NULL, file TEXT, line INTEGER, "offset" INTEGER);
CREATE TABLE findings(
    process INTEGER NOT NULL, idx INTEGER NOT NULL, execution INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY(process, idx)) WITHOUT ROWID;
"""

_CHANGES: Final[dict[int, str]] = {  # What each version added to the one before.
    2: """
ALTER TABLE processes ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE processes ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;
CREATE TABLE subscriptions(
    id TEXT PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, "where" TEXT, past INTEGER NOT NULL,
    completeness TEXT NOT NULL, execution TEXT, url TEXT, secret TEXT, created INTEGER NOT NULL,
    cursor INTEGER NOT NULL, sent INTEGER NOT NULL, failures INTEGER NOT NULL, retry INTEGER NOT NULL, error TEXT,
    stopped INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE traces(
    trace TEXT PRIMARY KEY, begun INTEGER NOT NULL, heard INTEGER NOT NULL, due INTEGER NOT NULL,
    records INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX traces_due ON traces(due);
CREATE INDEX traces_waiting ON traces(records, bytes) WHERE records > 0;
CREATE TABLE spans(
    trace TEXT NOT NULL, digest BLOB NOT NULL, at INTEGER NOT NULL, record BLOB, PRIMARY KEY(trace, digest))
    WITHOUT ROWID;
CREATE TABLE lanes(process TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE marks(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, events INTEGER NOT NULL);
""",
}


def create(db: sqlite3.Connection, shown: str, *, make: bool = True) -> None:
    """Make the tables in an empty file, or add what a newer version has; refuse a file that is something else.

    Without `make` nothing is written: what would have to be is refused.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if make and not tables and not application:
        tables = "".join((_TABLES, *_CHANGES.values()))
        db.executescript(
            f"BEGIN; {tables} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
        )
    elif application != _APPLICATION:
        raise InputError(f"{shown} is a database of something else: name another file for the store")
    elif make and 1 <= version < VERSION:
        added = "".join(changes for number, changes in _CHANGES.items() if number > version)
        db.executescript(f"BEGIN IMMEDIATE; {added} PRAGMA user_version = {VERSION}; COMMIT;")
    elif version != VERSION:
        raise InputError(
            f"{shown} is a store of version {version}, this program reads version {VERSION}: use the program that "
            "wrote it, or name another file"
        )
