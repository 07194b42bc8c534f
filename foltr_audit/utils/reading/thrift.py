"""Structs of Thrift's compact protocol, as much of it as the end of a Parquet file has.

Source: Apache Thrift, "Thrift compact protocol", https://github.com/apache/thrift/blob/master/doc/specs.
"""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE = (4, 5, 6)
_MOST_LEVELS = 16
_LONGEST = 10  # bytes of a whole number of 64 bits


class ThriftReader:
    """Reads structs from bytes; fields are known by their numbers alone.

    Attributes:
        at: place of the next byte.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def struct(self, level: int = 0) -> dict[int, Any]:
        """The fields of a struct by number: numbers, bytes, lists and structs; maps are refused.

        Raises:
            ValueError: the bytes are no struct, or end before it does.
        """
        # The file decides how deep its structs go. Without a bound the end is a RecursionError, which no
        # caller expects of a damaged file.
        if level > _MOST_LEVELS:
            raise ValueError("structs inside each other without an end")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 0x0F
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, level)
        return fields

    def _value(self, kind: int, level: int) -> Any:
        if kind in _WHOLE:
            return self._signed()
        if kind == _BINARY:
            return self._take(self._unsigned())
        if kind == _STRUCT:
            return self.struct(level + 1)
        if kind in (_LIST, _SET):
            return self._list(level)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        raise ValueError(f"a field of kind {kind}")

    def _list(self, level: int) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 != 0x0F else self._unsigned()
        if size > len(self._data) - self.at:
            raise ValueError("a list that is longer than the bytes")
        if level > _MOST_LEVELS:
            raise ValueError("lists inside each other without an end")
        return [self._value(head & 0x0F, level + 1) for _ in range(size)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        piece = self._data[self.at : self.at + size]
        if len(piece) < size:
            raise ValueError("it ends in the middle of a field")
        self.at += size
        return piece

    def _unsigned(self) -> int:
        number = 0
        for place in range(_LONGEST):
            byte = self._byte()
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return number
        raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
