"""For notebooks and programs: analyze, open, and ask; answers that show themselves."""

from __future__ import annotations

from beforehand.notebook.analysis import Analysis, analyze, open_history
from beforehand.notebook.answers import Chain, Check, CutThrough, Events, Past, Picture

__all__ = ["Analysis", "Chain", "Check", "CutThrough", "Events", "Past", "Picture", "analyze", "open_history"]
