"""File formats.

`methods` and `functions` are the public interface; they and `read` import the formats inside functions, as
most programs never need them. A folder of memory-mapped files: `folder` plans and writes one, or
chooses another destination, `read` reads one, `entries` adds to one, and `commit` replaces all of its files
atomically. `keys` has the file names, `meta` the format of `meta.json`, `payload` that of objects. `stores`
and `archive` open folders and archives, `mapping` maps files to memory.

Other formats: `flat`, `h5`, `consolidated`, `text`; `onnx` writes graphs. Single arrays: `memory_mapped`.
"""
