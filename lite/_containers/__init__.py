"""The two classes of containers: dense containers and lazy stacks. In reading order:

`dense` has the container that holds its entries in a dict, `assignment` the writes of its entries. `joining`
stacks and concatenates entries.

`lazy` has the container that is a stack of containers. `lazy_entries` reads its entries and stacks them,
`ragged` reads entries whose rows differ in shape, `lazy_writes` writes to the parts, and `lazy_index` indexes
and reshapes them.
"""
