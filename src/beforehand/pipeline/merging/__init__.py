"""The merger on Spark Structured Streaming: sources, lanes of channels, sinks, and the reader of what was merged."""

__all__ = ()
