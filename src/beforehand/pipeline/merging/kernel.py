"""Stamps of many messages at once: from their text to their place in the order, compiled.

The kernel takes the usual way only: a stamp of the agreed kind and bounds, in its canonical form, that
`MergeRules.judge` lets pass. Whatever else it finds it leaves, and the caller asks the plain Python code, which knows
the reason. So the two cannot disagree about a reason, only about whether a message passes and about its key: a
property test compares both on random, corrupted and hostile stamps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from beforehand.history.kernels.compiled import kernel

__all__ = ["ALPHABET", "LIMIT_TICKS", "place_stamps"]

LIMIT_TICKS = 2**60
"""Bounds above this are left to Python, whose numbers have no end."""

ALPHABET = np.full(256, 255, dtype=np.uint8)
"""Of base64url: the six bits of each character; 255 for all that is none."""
ALPHABET[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] = np.arange(64, dtype=np.uint8)

Bytes = NDArray[Any]
Longs = NDArray[Any]
Number = Any  # An integer of 64 bits; NumPy's and Python's are one for the compiler.


@kernel
def place_stamps(
    texts: Bytes,
    text_offsets: NDArray[Any],
    names: Bytes,
    name_offsets: NDArray[Any],
    sequences: Longs,
    arrivals: Longs,
    passing: Bytes,
    alphabet: Bytes,
    bounded: bool,
    modulus: int,
    width: int,
    count_max: int,
    count_bytes: int,
    epsilon: int,
    delta: int,
    wait: int,
    c_max: int,
    text_max: int,
    due: Longs,
    keys: Bytes,
    key_offsets: NDArray[np.int32],
) -> None:
    """For each row that is `passing`: its due tick and its key; or it is not passing any more.

    `arrivals` in ticks, from 0. `keys` has room for all; a row that does not pass has an empty key.
    """
    data = np.empty(text_max, dtype=np.uint8)
    counts = np.zeros(2 * width + 1, dtype=np.int64)
    numbers = np.zeros(4, dtype=np.int64)
    at = 0  # The end of the keys so far.
    for row in range(len(passing)):
        key_offsets[row] = at
        if passing[row] == 0:
            continue
        passing[row] = 0  # Until all is well.

        # Base64url, in its only form.
        start, end = text_offsets[row], text_offsets[row + 1]
        length = end - start
        if length > text_max or length < 4 or length % 4 == 1:  # The shortest stamp takes three bytes.
            continue
        size = 0
        bits: Number = 0
        pending = 0
        valid = True
        for index in range(start, end):
            six = alphabet[texts[index]]
            if six == 255:
                valid = False
                break
            bits = (bits << 6) | np.int64(six)
            pending += 6
            if pending >= 8:
                pending -= 8
                data[size] = (bits >> pending) & 0xFF
                size += 1
                bits &= (1 << pending) - 1
        if not valid or bits != 0:
            continue

        # The first byte, then four numbers (bounded: modulus, remainder, c, width) or two (r, c).
        if data[0] != (0x17 if bounded else 0x18):
            continue
        position = 1
        for which in range(4 if bounded else 2):
            value: Number = 0
            shift = 0
            valid = False
            while position < size and shift <= 62:
                byte = np.int64(data[position])
                position += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    valid = byte != 0 or shift == 0
                    break
                shift += 7
            if not valid:
                break
            numbers[which] = value
        if not valid:
            continue

        if bounded:
            if numbers[0] != modulus or numbers[1] >= modulus or numbers[3] != width:
                continue
            c = numbers[2]
            # The counts: varints, or packed in one bit width, whichever is shorter.
            if position >= size:
                continue
            packed: Number = np.int64(data[position])
            position += 1
            count = 2 * width
            greatest: Number = 0
            varint_bytes = 0
            if packed == 0:
                for which in range(count):
                    value = 0
                    shift = 0
                    valid = False
                    while position < size and shift <= 62:
                        byte = np.int64(data[position])
                        position += 1
                        value |= (byte & 0x7F) << shift
                        if byte < 0x80:
                            valid = byte != 0 or shift == 0
                            break
                        shift += 7
                    if not valid or value > count_max:
                        valid = False
                        break
                    counts[which] = value
                    greatest = max(greatest, value)
                    varint_bytes += shift // 7 + 1
            else:
                packed_bytes = (count * packed + 7) // 8
                valid = packed <= 63 and position + packed_bytes <= size
                if valid:
                    bit = position * 8
                    for which in range(count):
                        value = 0
                        needed: Number = packed
                        while needed > 0:
                            room = 8 - (bit & 7)
                            take = min(needed, room)
                            piece = (np.int64(data[bit >> 3]) >> (room - take)) & ((1 << take) - 1)
                            value = (value << take) | piece
                            bit += take
                            needed -= take
                        if value > count_max:
                            valid = False
                            break
                        counts[which] = value
                        greatest = max(greatest, value)
                        varint_bytes += 1
                        value >>= 7
                        while value > 0:
                            varint_bytes += 1
                            value >>= 7
                    if valid and bit & 7 and data[bit >> 3] & ((1 << (8 - (bit & 7))) - 1):
                        valid = False  # Its padding is not zero.
                    position += packed_bytes
            if not valid or position != size:
                continue
            shortest = 1
            while greatest >> shortest:
                shortest += 1
            if packed != (shortest if (count * shortest + 7) // 8 < varint_bytes else 0):
                continue
            # Lemmas 3.1, 3.2 and 3.4; 3.4 was looked at above.
            if width == 0:
                if c != 0:
                    continue
            else:
                if c >= width or counts[c + width] == 0:
                    continue
                for which in range(c + width + 1, count):
                    if counts[which] != 0:
                        valid = False
                        break
                if not valid:
                    continue
            latest = arrivals[row] + epsilon
            r = latest - (latest - numbers[1]) % modulus
        else:
            r, c = numbers[0], numbers[1]
            if position != size or c > c_max or r > arrivals[row] + epsilon:
                continue
        if arrivals[row] > r + delta or r > arrivals[row] + epsilon:
            continue

        passing[row] = 1
        due[row] = r + c + wait
        # The key: r + c above 2^63, the middle, the publisher, a zero, the sequence number.
        first = np.uint64(r + c) + np.uint64(0x8000000000000000)
        for which in range(8):
            keys[at] = (first >> np.uint64(56 - 8 * which)) & np.uint64(0xFF)
            at += 1
        if bounded:
            for which in range(width):
                value = counts[c + width - which]
                for part in range(count_bytes):
                    keys[at] = (value >> (8 * (count_bytes - 1 - part))) & 0xFF
                    at += 1
        else:
            second = np.uint64(r) + np.uint64(0x8000000000000000)
            for which in range(8):
                keys[at] = (second >> np.uint64(56 - 8 * which)) & np.uint64(0xFF)
                at += 1
        for index in range(name_offsets[row], name_offsets[row + 1]):
            keys[at] = names[index]
            at += 1
        keys[at] = 0
        at += 1
        for which in range(8):
            keys[at] = (sequences[row] >> (56 - 8 * which)) & 0xFF
            at += 1
    key_offsets[len(passing)] = at
