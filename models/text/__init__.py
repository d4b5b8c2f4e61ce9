"""Conversations, texts and token ids, and the ways between them; nothing here runs a model. In reading order:

- `template_sandbox`, `template_rendering`: chat templates, untrusted, run within limits
- `builtin_templates`, `parsers`: the known templates and the choice of one; their inverses
- `chat`: messages to text to ids, and which parser reads a tokenizer's text
- `columns`, `tokenizer`: rows of ids padded, cut, as lists or arrays; text to ids and back
- `byte_level_bpe`: what reads tokenizer.json where the tokenizers package is not installed
- `rows`: rows of ids with a mask, the one form that wrappers compute with
- `nesting`: between rows in order and batches of any shape
- `to_html`: how notebooks and pages show tokens, log-probs and conversations
- `specs`, `history`, `data`: the data classes, and what they will hold
"""
