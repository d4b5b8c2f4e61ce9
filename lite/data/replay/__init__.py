"""Replay buffers: storages keep transitions, samplers draw batches from them.

`replay_buffer` joins a storage, a writer, a sampler and transforms; `tensordict_replay_buffer` has the
buffers for TensorDicts, one of them prioritized. A `replay_buffer_ensemble` draws from several buffers.

Storages: `storages` has the base class and the list, `tensor_storage` the storages of arrays: `columns` are
the arrays, `trees` their nesting, `next_observations` avoids a second copy. `mapped_storage` is in files.
A ring's length and cursor are a `Position`, in files a `ring_file`; `kept_file` has the rest of the state.
`writers` choose the rows to write.

`samplers` has the base class and uniform samplers, `slice_sampler` the samplers of pieces of trajectories,
which `trajectory_index` finds, and `prioritized_sampler` the sampler by priority.
"""
