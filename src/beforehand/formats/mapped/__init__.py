"""Any JSON Lines or CSV, by a map file that says what its fields mean."""

from beforehand.formats.mapped.field_map import FieldMap, read_map
from beforehand.formats.mapped.reading import read_mapped
from beforehand.formats.mapped.rows import Mapped

__all__ = ["FieldMap", "Mapped", "read_map", "read_mapped"]
