"""The token loop and its options."""
