"""Bytes and text of a file, up to a bound."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.errors import FoltrAuditError

MOST_BYTES = 256 << 20
"""A larger file is not read: the results of some 20,000 cells have this size."""

# One `read(most)` would allocate the whole bound, even for a file of a few bytes.
_PIECE_BYTES = 16 << 20


def file_bytes(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES, who: str = "") -> bytes:
    """The content of a file; `who` comes before its path in messages.

    Raises:
        FoltrAuditError: of the given kind: it is missing, cannot be read, or is larger than `most` bytes.
    """
    pieces: list[bytes] = []
    # One byte beyond the bound tells a file that is too large from one that just fits. The size on disk is no
    # substitute: a device or a pipe has none, and a file may grow while it is read.
    left = most + 1
    try:
        with path.open("rb") as stream:
            while left and (piece := stream.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
    except FileNotFoundError:
        raise error(f"{who}{path}: no such file") from None
    except (OSError, ValueError) as problem:  # ValueError: a name that no file can have
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{who}{path}: cannot be read: {reason}") from problem
    if not left:
        raise error(f"{who}{path}: more than {most} bytes; expected {most} at most")
    return b"".join(pieces)


def file_text(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES) -> str:
    """The content of a UTF-8 text file.

    Raises:
        FoltrAuditError: of the given kind: as `file_bytes`, or it is not UTF-8.
    """
    return decoded(file_bytes(path, error, most), str(path), error)


def decoded(content: bytes, where: str, error: type[FoltrAuditError]) -> str:
    """UTF-8 bytes as text.

    Raises:
        FoltrAuditError: of the given kind: they are not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{where}: byte {problem.start + 1} is not UTF-8; expected UTF-8 text") from problem
