"""Transforms of trajectories and transitions.

`n_step` has `MultiStep` and what it shares with `multistep_transform`;
`densify_reward`, `split_trajectories` and `token_transitions` are one transform each.
"""
