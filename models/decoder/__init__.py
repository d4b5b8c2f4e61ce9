"""A language model as rows of tokens to extend, fork, cut and score. In reading order:

- `protocol`: what generation, scoring and wrappers need of a model
- `conventions`: which of the exporters' conventions a graph follows
- `gather_logits`: a graph changed to compute only the logits that are needed
- `attention`, `attention_experiment`: attention that reads the cache in place instead of what an exporter
  wrote, and the trial that shows it to be the same
- `output_rows`: the rows of a graph's output matrix that a few tokens need
- `binding`, `memory`: one run of a graph by pointers; buffers on the device
- `device_logits`: logits that stay on a GPU
- `gpu_binding`: runs on the stream of a GPU, and captured steps
- `cache`: the interface of the two caches, and the one for graphs that concatenate
- `slots`: the one for graphs that write in place
- `recompute`: what stands in for a cache where the graph has none
- `probe`: what only a run shows of a graph
- `opening`: from a model's files to its graphs; pairs of graphs
- `adapters`: LoRA adapters, as values of a graph's optional inputs
- `scoring`: log-probs of given tokens, in chunks
- `choices`: log-probs of continuations that share a prompt
- `decoder`: the public `OnnxDecoder`
"""
