"""One interface over every kind of decoder graph."""
