"""What can be done with a container: functions whose first argument is the container, listed by the facade.

    entries by key      access (set, delete)  read (get, keys)  update (many at once)
    the set of keys     structure (select, flatten, split)  entries (join, take out, ask)
                        lifted (what lazy stacks do otherwise)
    numbers             pointwise (one row per operation) <- elementwise (the engine) <- operands
                        reduce (one row per reduction)  scans (sorting, cumulative functions)
                        choose (masks, rows)  compare (within a tolerance)
    any function        apply
    the batch           rearrange (pick, repeat, roll, split)  padding  combine (stack, cat, merge)
    dtypes, devices     cast
    new containers      create
    left out            not_in_lite

They visit leaves by the walks of `_tree/walks.py`. NumPy's functions register beside the operation they are
(`implements`). `methods` types the methods that are made from rows.
"""
