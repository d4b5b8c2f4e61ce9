"""The small chat model that ships with the package.

- `embedded`: where it is
- `tasks`: the tasks that it was trained on, with a reward
- `assets/tiny_chat`: the model, its card, and the recipe that made it (which is not installed)
"""
