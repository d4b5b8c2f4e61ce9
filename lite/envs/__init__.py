"""Environments whose steps take and give TensorDicts, and what is done to their entries.

- `base`: `EnvBase`, what users derive from and call; `env_specs` has its specs and keys, `rollouts` its
  loops, `done_states` what ends and restarts, `mdp_steps` the way from one step to the next
- `spec_checks`: whether an environment gives what its specs say
- `exploration`: TorchRL's names of the interaction type
- `gym`: gymnasium's environments as `EnvBase`; `environments` is one face for single ones, vectors
  and encoded ones, `info_readers` has what they tell besides, `spaces` their spaces as specs and encodings,
  `recording` is for faster loops; `pettingzoo` has those of several agents
- `batched_env`: many environments in this process, and what they share with `parallel_env`, whose are in
  other processes, which run `env_worker`; `env_creator` has environments share their running statistics

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use
from lite.envs import transforms

# The public names by what defines them.
_NAMES = {
    "base": "EnvBase",
    "done_states": "terminated_or_truncated",
    "env_creator": "EnvCreator",
    "environments": "EnvError",
    "exploration": "ExplorationType exploration_type set_exploration_type",
    "gym": "GymEnv GymWrapper set_gym_backend",
    "info_readers": "BaseInfoDictReader default_info_dict_reader",
    "mdp_steps": "step_mdp",
    "parallel_env": "ParallelEnv",
    "pettingzoo": "MarlGroupMapType PettingZooEnv PettingZooWrapper check_marl_grouping",
    ".nn.policies.exploration": "RandomPolicy",
    "batched_env": "SerialEnv",
    "spec_checks": "check_env_specs",
    ".specs.of_data": "make_composite_from_td",
    "transforms": " ".join(transforms.__all__),
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)


# What modules call by this name.
_lazy_hooks.register(
    make_tensordict_primer=lambda: import_module("lite.envs.transforms.step_transforms").primer_of_states,
    append_transform=lambda: __getattr__("TransformedEnv"),
    make_mask_primer=lambda: import_module("lite.envs.transforms.step_transforms").primer_of_masks,
)
