"""What a module is."""
