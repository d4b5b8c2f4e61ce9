"""Formats on disk.

`methods` and `functions` are what users call. A folder of mapped files: `folder` plans and writes one,
`read` reads one, `entries` adds to one, and `commit` makes all of its files count at once. `keys` and
`meta` say how its files are called and what `meta.json` holds, `payload` how objects are kept. `stores`
and `archive` are where the files lie, `mapping` is the memory over them, `save` chooses among all this.

Other formats: `flat`, `h5`, `consolidated`, `text`. Single arrays: `memory_mapped`.
"""
