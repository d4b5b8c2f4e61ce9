"""Operations on containers: functions whose first argument is the container, listed by the facade.

    entries by key      access (get, set, delete, keys)  update (many at once)
    the set of keys     structure (select, flatten, split)  entries (join, take out, inspect)
                        lifted (operations that differ on lazy stacks)
    numbers             pointwise (one row per operation) <- elementwise (the engine) <- operands
                        reduce (one row per reduction)  scans (sorting, cumulative functions)
                        choose (masks, rows)  compare (within a tolerance)
    any function        apply
    the batch           rearrange (pick, repeat, roll, split)  padding  combine (stack, cat, merge)
    dtypes, devices     cast
    new containers      create
    left out            not_in_lite

Leaves are visited by the traversals of `_tree/walks.py`. NumPy functions are registered beside the operation
that implements them (`implements`). An operation
calls other operations as methods of the container, so that lazy stacks and parameters use their own.
"""
