"""Replay buffers: what keeps transitions, and what draws batches from them.

`samplers` has the base of all samplers and those that draw uniformly, `prioritized_sampler` the one that
draws by priority, `slice_sampler` and `prioritized_slice_sampler` those that draw pieces of trajectories,
which `trajectory_index` finds.
"""
