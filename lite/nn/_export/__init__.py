"""Modules as ONNX graphs: `Module.to_onnx`.

- `to_onnx`: the whole way, from a module and its examples to the files: runs a copy of the module on symbolic
  arrays (`lite._transforms.graphs`), and writes what comes of it;
- `example`: which inputs and outputs there are, what they are called, which sizes are dynamic;
- `native`: layers that are one operator, by the class of the layer; all other modules are traced through;
- `contract`: the JSON file beside the graph, written and read, also by `lite.models.OnnxModule`.

Nothing here is imported before it is used, and only what is written needs the onnx package.
"""
