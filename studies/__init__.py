"""Studies: programs that use the library for one question, and that nothing in the library uses."""
