"""The report page: what an analysis found, for people, as one file that fetches nothing."""

from beforehand.pipeline.report.page import report_page

__all__ = ["report_page"]
