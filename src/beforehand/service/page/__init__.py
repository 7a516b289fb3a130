"""The page of the service: files for a browser, as they are served. `service/http/paging.py` serves them.

Hand-written modules, no build step and no code of others. Nothing is fetched but from the service that served them.
"""

from __future__ import annotations

__all__ = []
