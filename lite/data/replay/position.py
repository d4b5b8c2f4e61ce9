"""The position of a ring of rows: the number of rows, and the index of the next write."""

from __future__ import annotations


class Position:
    """The position of a ring, in memory; `ring_file.RingFile` is the same in a file.

    Attributes:
        length: rows that hold something.
        cursor: the row that is written next.
        writes: rows written since the storage was emptied, those that are overwritten by now included.
        changes: how many times rows were written that were not added where the ring stands.
    """

    __slots__ = ("changes", "cursor", "length", "writes")

    def __init__(self, length: int = 0, cursor: int = 0, writes: int = 0) -> None:
        self.length, self.cursor, self.writes = length, cursor, writes
        self.changes = 0

    def now(self) -> tuple[int, int, int]:
        """`length`, `cursor` and `writes` of one moment."""
        return self.length, self.cursor, self.writes

    def commit(self, length: int, cursor: int, writes: int) -> None:
        """From now on, the ring stands there."""
        self.length, self.cursor, self.writes = length, cursor, writes
