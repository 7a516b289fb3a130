"""What runs on Spark's Python workers: Arrow batches in, files and small results out."""

__all__ = ()
