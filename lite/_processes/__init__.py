"""Several processes: map, workers, shared memory, pickle."""
