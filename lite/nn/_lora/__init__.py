"""Low-rank adapters (LoRA): a frozen module beside which small matrices learn. In reading order:

- `lora`: the function, and the `LoraModule` that it returns
- `linear`: what an adapter computes, and where one is; one beside a `Linear`
- `graph`: adapters beside the products of a `GraphModule`
- `projections`: the products of an ONNX graph with constant matrices, and their names
- `files`: of PEFT and onnxruntime
- `inputs`: an exported decoder's file with optional inputs for adapters
"""
