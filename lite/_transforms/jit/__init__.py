"""`lite.jit`: functions as graphs that onnxruntime runs.

- `function`: `jit`, and the graphs that it keeps.
- `named`: what a function takes from elsewhere.
- `structure`: arguments and results as arrays and a hashable structure.
- `tracing`: a function as a graph, with what it captures, draws and writes; `caller`: its line, in messages.
- `draws`: random numbers as inputs.
- `joining`, `aligning`, `tiling`: the graph as onnxruntime runs it fastest.
- `runner`: the session, and the state that stays in it.
- `stateful`: steps in torch's style, which change modules and optimisers that they name.
- `saved`, `saved_state`: steps as files, and what those in torch's style hold.
"""
