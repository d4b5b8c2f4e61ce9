"""The token loop over a decoder. In reading order:

- `grammar`: what a response has to be, through llguidance
- `options`: names, defaults and checks of the options
- `processors`: what options do to scores before a token is drawn
- `response`: a response while it is written
- `stops`: texts that end a response
- `sampling`: the next token of every open response
- `beams`: beam search, and beams that are drawn
- `prefix_cache`: rows kept after a call, and filled so that what they share runs once
- `speculation`: guessed tokens
- `run`: rows are filled, drawn for and stepped, and replaced when they have ended
- `loop`: prompts in, tokens and their log-probs out
- `batching`: rows of several threads in one run
- `pool`: several decoders of one model
- `calls`: what a wrapper asks of its model
"""
