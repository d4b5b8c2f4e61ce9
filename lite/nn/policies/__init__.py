"""Policies: exploration, actors, recurrent modules, and the networks that they are made of.

In reading order: `exploration` says when actions are explored, adds noise to them, and draws them;
`consistent_dropout` is another way to do it. `safe` has modules that know the specs of what they write,
`actors` those that act, also together with value networks, `distributional` actors over distributions of
values, `hooks` hooks of networks, `multi_step_actor` those that plan, `tanh` bounds of actions.
`recurrent` has modules of single steps or sequences. `conv_net` (also dueling), `ddpg` and `multi_agent`
are networks, `noisy` has layers that explore, `batch_renorm` a layer of some.
"""
