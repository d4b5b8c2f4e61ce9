"""Policies: exploration, actors, recurrent modules, and the networks that they are made of.

In reading order: `exploration` says when actions are explored, and adds noise to them; `random_policy` and
`consistent_dropout` are other ways to do it. `safe` has modules that know the specs of
what they write, `actors` those that act, `operators` actors together with value networks, `distributional`
actors over distributions of values, `hooks` actors that are hooks of networks, `multi_step_actor` those that
plan, `tanh` bounds of actions. `modes` says whether a recurrent module is given single steps or sequences;
`recurrent` has these modules, and `sequences` what they compute. `conv_net` (also dueling), `ddpg` and
`multi_agent` are networks, `noisy` has layers that explore, `batch_renorm` a layer of some.
"""
