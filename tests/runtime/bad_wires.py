"""The bad wires of `make soak`, for tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from soak.wires import bad_wires

__all__ = ["bad_wires"]
