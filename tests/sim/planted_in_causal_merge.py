"""Planted bugs in CausalMerge. Those in its clock and its buffer are in `planted_in_merging`."""

from __future__ import annotations

from mutants import Bug

MODULE = "ordering.causal_merge"
RUN = ("causal-merge",)

CAUSAL_MERGE = (
    Bug(
        "causal merge: own messages are delivered nowhere",
        MODULE,
        "            if self.process in message.to:\n                self._offer(message, stamp, reading, effects)\n",
        "",
        RUN,
        "P6: the sender never delivers its own message",
    ),
    Bug(
        "causal merge: no timer for what waits to be stamped",
        MODULE,
        "                return reading + 1\n",
        "                return None\n",
        RUN,
        "P4: a tick with room comes and nothing is sent",
    ),
    Bug(
        "causal merge: no timer for the end of a quiet window",
        MODULE,
        "                return until\n",
        "                return None  # No timer.\n",
        RUN,
        "P4: nothing wakes a member that waits for the end of a window",
    ),
    Bug(
        "causal merge: a clock that goes back a little is believed",
        MODULE,
        "if self._reading is None or not reading < self._reading <= reading + self._rules.span:",
        "if True:",
        RUN,
        "P2: what is sent after a delivery has a smaller key",
    ),
    Bug(
        "causal merge: restore forgets what waits",
        MODULE,
        "        self._buffer.restore(snapshot.buffer)\n",
        "",
        RUN,
        "P6 after a crash: what had come is lost",
    ),
    Bug(
        "causal merge: restore forgets what is not stamped yet",
        MODULE,
        "self._unsent, self._timer = deque(snapshot.unsent), None",
        "self._unsent, self._timer = deque(), None",
        RUN,
        "a message was accepted and never sent",
    ),
    Bug(
        "causal merge: all waiting messages leave at once",
        MODULE,
        "                stamp = self._clock.tick(reading)\n",
        "                stamp = self._clock.tick(reading) if message is self._unsent[-1] else self._clock.stamp()\n",
        RUN,
        "P2: messages with the same stamp as one before",
    ),
    Bug(
        "causal merge: set aside without a word",
        MODULE,
        "            effects.happen(Discard(message=message, reason=Reason(reason.value)))\n\n",
        "            pass\n\n",
        RUN,
        "P5",
    ),
)
