"""The small chat model that ships with the package.

- `embedded`: where it is
- `tasks`: the tasks that it was trained on, with a reward
- `assets/tiny_chat`: the model and its card; `bench/tiny_chat` of a checkout is the recipe that made it
"""
