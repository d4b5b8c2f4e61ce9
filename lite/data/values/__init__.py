"""Advantages among the responses to one prompt (GRPO), of a batch or of a stream: `group_advantages`.

The estimators of advantages along time, which `lite.data` exports, too, are in `lite.nn.values`.
"""
