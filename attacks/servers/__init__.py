"""Servers that do not follow the protocol: each sends something that leaves one update alone in the sum."""
