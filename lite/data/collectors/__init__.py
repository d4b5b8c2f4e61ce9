"""From environments, and from prompts, to batches of transitions.

`collector` is what users call; `rollout` is its loop, which writes steps into arrays made beforehand, and
`env_rollout` that over any other `EnvBase`.
`whole_trajectories` puts episodes together that several batches have a part of.
`evaluator` runs a policy for whole episodes while it learns.
`progress` shows how far a collection is.
`episode_statistics` has what is told of episodes.

`llm_collector` has a language model respond to prompts, which `prompts` reads. `ray_collector` has
collectors in the actors of a cluster, `multi_collector` in processes of this machine, which run
`collector_worker`; `backends` says which of them `Collector` makes, and `background` collects in a thread.
`added_transforms` are those that a collector adds.
"""
