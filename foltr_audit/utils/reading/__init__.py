"""Guarded readers: whatever a file holds, a reader returns a plain value or raises one clear error.

Every file is a stranger's until it was checked. A reader is told which error to raise and bounds what a file
can cost: bytes, digits, depth, and the size that an array or an archive claims beside the one that it has.
"""

from foltr_audit.utils.reading.bounded_files import file_bytes, file_text
from foltr_audit.utils.reading.json import json_table, json_value
from foltr_audit.utils.reading.toml import toml_table
from foltr_audit.utils.reading.values import whole_number

__all__ = ["file_bytes", "file_text", "json_table", "json_value", "toml_table", "whole_number"]
