"""How a server says that it refuses a call, the same over every carrier.

| error                                     | HTTP | gRPC                |
|-------------------------------------------|------|---------------------|
| `NonParticipantError`: no usable stamp    | 400  | FAILED_PRECONDITION |
| `DuplicateMessageError`: received before  | 409  | ALREADY_EXISTS      |
| `DeliveryTimeoutError`: its causes are missing | 503 | UNAVAILABLE       |
| `BufferFullError`: too many wait          | 503  | UNAVAILABLE         |
| `UnknownBaseError`: send it again, with a full stamp | 409 | ABORTED         |
| any other                                 | 400  | FAILED_PRECONDITION |

The text of the error is one line. The header `beforehand-refused` tells callers that no handler ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from beforehand.errors import (
    BeforehandError,
    BufferFullError,
    DeliveryTimeoutError,
    DuplicateMessageError,
    UnknownBaseError,
)

__all__ = ["BASE_UNKNOWN", "REFUSED_HEADER", "Refusal", "refusal"]

REFUSED_HEADER: Final = "beforehand-refused"
BASE_UNKNOWN: Final = "aborted"
"""The value of the header that asks the caller for a full stamp."""


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int  # HTTP.
    code: str  # The name of the gRPC status.
    text: str


def refusal(error: BeforehandError) -> Refusal:
    if isinstance(error, DuplicateMessageError):
        return Refusal(409, "ALREADY_EXISTS", str(error))
    if isinstance(error, DeliveryTimeoutError | BufferFullError):
        return Refusal(503, "UNAVAILABLE", str(error))
    if isinstance(error, UnknownBaseError):
        return Refusal(409, BASE_UNKNOWN.upper(), str(error))
    return Refusal(400, "FAILED_PRECONDITION", str(error))
