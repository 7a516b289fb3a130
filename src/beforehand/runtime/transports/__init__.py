"""How packets get from member to member."""

__all__ = ()
