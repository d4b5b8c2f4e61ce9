"""TensorDicts for people: `text` (with `options`, which users set), `html` for notebooks, `summary` as a
table; `rows` is what the last two say of an entry. `page` makes pages, and anything safe for HTML.
"""
