"""Who may do what: tokens with a scope, kept as hashes in a file beside the store.

1. A token is `bh_ID_SECRET`; the secret has 32 random bytes and is shown once, when the token is made. The file has
   its SHA-256 only: of so many random bytes nothing can be guessed, so no slow hash is needed.
2. `check` looks into memory and compares in constant time. It never waits for a disk, so an event loop may call it.
   `refresh`, called every second, takes over what other processes changed: a token revoked by the command ends at
   most a second later. `add` and `revoke` hold at once in their own process.
3. A revoked token stays in the file, so `ever` (tokens were made once) never becomes false again.

The file is its own, `STORE-access`: the command changes tokens while the service has the store.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Final, Literal, get_args

from beforehand.errors import InputError

__all__ = ["SCOPES", "Scope", "Token", "Tokens", "access_path", "open_access"]

Scope = Literal["report", "read", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NAME_MAX: Final = 100
TOKENS_MAX: Final = 10_000
"""Rows of the file, the revoked ones included."""

_APPLICATION: Final = 0x42464F41
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE tokens(
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL,
    used INTEGER, revoked INTEGER) WITHOUT ROWID;
CREATE TABLE audit(
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token; its secret is not. Times are nanoseconds since 1970."""

    id: str
    scope: Scope
    name: str
    created: int
    used: int | None = None  # About a minute exact.
    revoked: int | None = None

    def allows(self, scope: Scope) -> bool:
        """`admin` may do all; `report` and `read` do not include each other."""
        return self.revoked is None and self.scope in (scope, "admin")


def access_path(source: str | os.PathLike[str]) -> Path:
    """The file with the tokens of a store, or of a history directory; the same one by whatever link it is called."""
    path = Path(source)
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    return path.with_name(f"{path.name}-access") if path.name else Path(f"{path}-access")


def open_access(path: Path) -> sqlite3.Connection:
    """The file with tokens and audit log; it is made, for its owner only, if it is not there."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{str(path)!r} cannot hold tokens: name a store in a directory that is there")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"cannot open the tokens in {str(path)!r}: {error}") from None
    try:
        db.execute("BEGIN IMMEDIATE")
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables and not application:
            for statement in _TABLES.strip().split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        elif (application, version) != (_APPLICATION, _VERSION):
            raise InputError(f"{str(path)!r} is no file of tokens of this program: move it away")
        db.execute("COMMIT")
    except sqlite3.Error as error:
        db.close()
        raise InputError(f"cannot use the tokens in {str(path)!r}: {error}") from None
    except BaseException:
        db.close()
        raise
    return db


class Tokens:
    """The tokens of one file. Any thread may call any method."""

    def __init__(self, path: Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.path: Final = path
        self._clock: Final = clock
        self._lock: Final = threading.Lock()  # For the connection.
        self._db: Final = open_access(path)
        self._known: dict[str, tuple[bytes, Token]] = {}  # Replaced as a whole: readers take no lock.
        self._used: dict[str, int] = {}  # When tokens were used, since the last refresh.
        self.refresh()

    def close(self) -> None:
        self.refresh()
        with self._lock:
            self._db.close()

    @property
    def ever(self) -> bool:
        """Whether a token was ever made."""
        return bool(self._known)

    @property
    def active(self) -> int:
        """How many tokens hold."""
        return sum(token.revoked is None for _, token in self._known.values())

    def add(self, name: str, scope: str) -> tuple[Token, str]:
        """A new token, and its text: the only time that it can be seen."""
        if scope not in SCOPES:
            raise InputError(f"there is no scope {scope[:40]!r}: choose {', '.join(SCOPES)}")
        if not name or len(name) > NAME_MAX or not name.isprintable():
            raise InputError(f"name of a token: 1 to {NAME_MAX} printable characters")
        identity, secret = token_hex(6), token_bytes(32)
        created = self._clock()
        with self._lock:
            (count,) = self._db.execute("SELECT count(*) FROM tokens").fetchone()
            if count >= TOKENS_MAX:
                raise InputError(f"there are {TOKENS_MAX} tokens already, the revoked ones included")
            self._db.execute(
                "INSERT INTO tokens VALUES(?, ?, ?, ?, ?, NULL, NULL)",
                (identity, sha256(secret).digest(), scope, name, created),
            )
        self.refresh()
        return self._known[identity][1], f"bh_{identity}_{secret.hex()}"

    def revoke(self, identity: str) -> Token:
        """End a token. `InputError` if there is none like that."""
        with self._lock:
            self._db.execute(
                "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (self._clock(), identity)
            )
        self.refresh()
        if identity not in self._known:
            raise InputError(f"there is no token {identity[:40]!r}: the list shows the ids of tokens")
        return self._known[identity][1]

    def list(self) -> list[Token]:
        """All of them, the oldest first, the revoked ones too."""
        return sorted((token for _, token in self._known.values()), key=lambda token: (token.created, token.id))

    def check(self, text: str) -> Token | None:
        """The token that this is; None if it is none, or was revoked."""
        kind, _, rest = text.partition("_")
        identity, _, secret = rest.partition("_")
        digest, token = self._known.get(identity, (_NOBODY, None))
        try:
            given = sha256(bytes.fromhex(secret)).digest()
        except ValueError:
            return None
        if not compare_digest(given, digest) or kind != "bh" or token is None or token.revoked is not None:
            return None
        self._used[identity] = self._clock()
        return token

    def refresh(self) -> None:
        """Take over what the file has, and note when tokens were used."""
        with self._lock:
            used, self._used = self._used, {}
            # Once a minute is exact enough, and saves a write every second.
            due = [(at, identity) for identity, at in used.items() if at - self._seen(identity) > _USED_EVERY_NS]
            if due:
                self._db.executemany("UPDATE tokens SET used = ? WHERE id = ?", due)
            rows = self._db.execute("SELECT id, digest, scope, name, created, used, revoked FROM tokens").fetchall()
            self._known = {
                row[0]: (
                    row[1],
                    Token(id=row[0], scope=row[2], name=row[3], created=row[4], used=row[5], revoked=row[6]),
                )
                for row in rows
            }

    def _seen(self, identity: str) -> int:
        known = self._known.get(identity)
        return 0 if known is None or known[1].used is None else known[1].used


def listed(path: Path) -> list[Token]:
    """The tokens of a file, which is not made if it is not there."""
    if not path.exists():
        return []
    with closing(Tokens(path)) as tokens:
        return tokens.list()


_NOBODY: Final = sha256(token_bytes(32)).digest()  # Compared with where there is no such token: the same time passes.
_USED_EVERY_NS: Final = 60_000_000_000
