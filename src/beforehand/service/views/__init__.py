"""What the page draws: windows and levels of detail over a store, a history directory or an imported file."""

from beforehand.service.views.viewer import Viewer

__all__ = ["Viewer"]
