"""Studies: programs that answer one question with the library, and that the library does not use."""
