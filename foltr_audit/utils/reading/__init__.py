"""Guarded readers: whatever a file holds, a reader returns a plain value or raises one clear error.

Every file is untrusted until it was checked. A caller passes the error to raise; a reader bounds what a file
can cost: bytes, digits, depth, and the size that an array or an archive claims compared with the one it has.
"""

from foltr_audit.utils.reading.text import (
    file_bytes,
    file_text,
    is_whole,
    json_table,
    json_value,
    toml_table,
    whole_number,
)

__all__ = ["file_bytes", "file_text", "is_whole", "json_table", "json_value", "toml_table", "whole_number"]
