"""Transforms of trajectories and transitions.

`n_step` is what `multistep` and `multistep_transform` share;
`densify_reward`, `split_trajectories` and `token_transitions` are one transform each.
"""
