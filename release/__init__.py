"""How a release is built, and what is proved of it before it goes out."""

__all__ = ()
