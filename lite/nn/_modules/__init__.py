"""What a module is.

In reading order: `meta` are arrays without data, `parameter` is an array with a name; `registry` holds
parameters, buffers and children and walks them; `hooks`, `casting` (to other dtypes) and `state_dict` build
on it; `compile` compiles functions with Numba; `module` is all of them. `initial` makes and fills parameters
of layers, `load` reads them from a file.
"""
