"""Two ways to hold entries: in a dict, and as a stack of containers. In reading order:

`dense` is the container with a dict, `assignment` how its entries are written. `joining` makes one entry
of several: it stacks and concatenates.

`lazy` is the container that holds parts. `lazy_entries` reads its entries, stacked when asked for;
`ragged` those whose rows differ in shape; `lazy_writes` writes to the parts; `lazy_index` indexes and
reshapes them.
"""
