"""What gathers data: environments and models in, TensorDicts out.

- `prompts`: prompts from lists, files and iterators, by number
- `llm_collector`: responses of a language model to prompts, with rewards
"""
