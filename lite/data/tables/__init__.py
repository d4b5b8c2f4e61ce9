"""Rows of tables, as jobs on many machines get them.

`columns` turns columns into TensorDicts and back, `json_lines` reads files of JSON lines, `row_seeds` gives a
row its seeds wherever it is computed, `ray_runtime` is what collectors and buffers need of Ray, and
`transform_batches` is a class for `ray.data.Dataset.map_batches`.
"""
