"""What a collection is, whatever holds its entries. In reading order:

`keys` turns nested keys into flat paths, and `key_views` lists them. `collection` is what an entry that is
no array answers, `nontensor` the entries that are Python objects, `unbatched` arrays that take no part in
the batch. `protocol` is what every container answers: read it to write an operation. `walks` visits the
arrays of a tree. `object_methods` gives objects what TensorDicts can do.

`batch_ops` are operations on the batch as objects, `shape` the methods that make them, `indexing` what an
index does to a shape. `names` and `lock` go down a tree, `undo` is for `with` statements.

`values` converts stored values to entries, with `duck_typed_columns` for columns of other libraries; `writes`
plans the writes of a call so that all or nothing is done, `entry_errors` names the entry that an error is
about. `numpy_protocol` registers NumPy's functions.
"""
