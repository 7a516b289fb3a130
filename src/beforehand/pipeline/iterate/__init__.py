"""Algorithms that need several rounds of Spark jobs: each has a greatest number of rounds."""

from beforehand.pipeline.iterate.consistent_cuts import consistent_cuts

__all__ = ["consistent_cuts"]
