"""Several processes: `map` cuts a batch into chunks, `workers` call a function of each; `shared` is memory
that processes share; `pickling` writes what travels or waits in a pickle.
"""
