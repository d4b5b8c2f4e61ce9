"""Any ONNX graph: its files, its sessions, one call. In reading order:

- `summary`: what the graph's own file says
- `model_config`: the graph of a model folder, and what the folder tells of the model
- `cuda_stream`: the stream of a GPU that a session shares with copies and kernels
- `runtime`: what runs graphs, and where: onnxruntime or NumPy, devices
- `numpy_session`: a graph on NumPy, with the part of onnxruntime's interface that is used
- `session`: sessions: opened, bound by pointer, shared by copies
- `tensors`: names, types, shapes and the batch axis of a graph's inputs and outputs
- `call`: a graph run on arrays
- `module`: the public `OnnxModule`
"""
