"""Trees of entries: the protocols of containers and entries. In reading order:

`keys` flattens nested keys to paths, and `key_views` lists them. `collection` is the protocol of entries that
are not arrays; `nontensor` has the entries that are Python objects, `unbatched` the arrays without batch
dimensions. `protocol` is the protocol of containers: read it to write an operation. `walks` visits the arrays
of a tree. `methods` makes methods of a class lazy. `object_methods` gives non-tensor data the methods of
TensorDicts.

`batch_ops` has the operations on batch dimensions as objects, `shape` the methods that create them,
`indexing` the effect of an index on a shape. `names` and `lock` apply to a whole tree, `undo` implements
`with` statements.

`values` converts stored values to entries, with `duck_typed_columns` for columns of other libraries; `writes`
plans the writes of a call so that all or none are done, `entry_errors` puts the entry's path into errors.
`numpy_protocol` registers NumPy's functions.
"""
