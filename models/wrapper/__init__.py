"""Language models as modules on TensorDicts. In reading order:

- `options`: the base class, and the rules of the constructor's arguments
- `loading`: the model and the tokenizer
- `input`: the entry that is read, brought to rows of tokens
- `output`: the data classes that are written, and where
- `sampled`: what is written of responses and of scores
- `distributions`: distributions over the vocabulary, by mask
- `collected`: what collectors ask beyond a call
- `versions`: the arguments of a wrapper made from another one
- `trainable`: the public `TrainablePolicy`, which scores and learns
- `onnx_wrapper`: the public `OnnxWrapper`, one call from the entry read to the entries written
"""
