"""Replay buffers: what keeps transitions, and what draws batches from them.

`replay_buffer` joins a storage, a writer, a sampler and `transforms`; `tensordict_replay_buffer` has its
forms of TensorDicts, one of which draws by priority. A `replay_buffer_ensemble` draws from several of them.

Storages: `storages` has the base and the list, `tensor_storage` those of arrays, which `columns` knows,
`trees` nests as the data was, and `next_observations` can keep once; `mapped_storage` is the one in files.
Where a ring of rows stands is a `Position`, in files a `ring_file`, and `kept_file` has what else survives.
`writers` decide where data goes.

`samplers` has the base of all samplers and those that draw uniformly, `slice_sampler` those that draw
pieces of trajectories, which `trajectory_index` finds, `prioritized_sampler` those that draw by priority.
"""
