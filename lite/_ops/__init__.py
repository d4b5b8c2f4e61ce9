"""What can be done with a container."""
