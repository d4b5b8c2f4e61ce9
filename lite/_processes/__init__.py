"""TensorDicts and processes: `map` applies a function to chunks of a batch in `workers`; `shared` moves
arrays to shared memory; `pickling` is the pickled state, `orphans` ends processes whose parent was killed,
and `watchdog` gives up calls that hang.
"""
