"""What a module is.

In reading order: `meta` are arrays without data, `parameter` is an array with a name, `initial` makes and
fills those of layers, `uninitialized` are those without a shape yet; `registry` holds parameters, buffers
and children and walks them; `hooks`, `casting` (to other dtypes) and `state_dict` build on it; `module`
is all of them, and `lazy` a module that finds out its sizes. `load` reads arrays from a file.
"""
