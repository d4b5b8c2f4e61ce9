"""What NumPy lacks, on single arrays."""
