"""Files: the on-disk formats of tensordict 0.14, and a few others. Formats are read and written here only."""
