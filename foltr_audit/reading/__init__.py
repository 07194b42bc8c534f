"""Guarded readers: whatever a file holds, a reader returns a plain value or raises one clear error.

Every file is a stranger's until it was checked. A reader is told which error to raise and bounds what a file
can cost: bytes, digits, depth, and the size that an array or an archive claims beside the one that it has.
"""

from foltr_audit.reading.files import file_bytes, file_text
from foltr_audit.reading.json_text import json_table, json_value
from foltr_audit.reading.numbers import whole_number
from foltr_audit.reading.toml_text import toml_table

__all__ = ["file_bytes", "file_text", "json_table", "json_value", "toml_table", "whole_number"]
