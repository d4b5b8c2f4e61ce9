"""Any ONNX graph: its files, its sessions, one call. In reading order:

- `json_files`, `summary`: what the files beside a graph and the graph's own file say
- `model_config`: the graph of a model folder, and what the folder tells of the model
- `cuda_stream`: the stream of a GPU that a session shares with copies and kernels
- `session`: onnxruntime's sessions: opened, bound by pointer, shared by copies
- `tensors`: names, types, shapes and the batch axis of a graph's inputs and outputs
- `call`: a graph run on arrays
- `module`: the public `OnnxModule`
"""
