"""The event reporting service: a store that stamps what is reported, and answers what led to what."""

from beforehand.service.ingest import Ingest, Receipt
from beforehand.service.queries import PAGE_MAX, Queries
from beforehand.service.settings import Settings
from beforehand.service.store import Change, Store

__all__ = ["PAGE_MAX", "Change", "Ingest", "Queries", "Receipt", "Settings", "Store"]
