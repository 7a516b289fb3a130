"""Read, transform, write: the only modules that run Spark jobs and write files."""

__all__ = ()
