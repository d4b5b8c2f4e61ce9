"""Environments whose steps take and return TensorDicts, and transforms of their entries.

- `base`: `EnvBase`, the base class of environments; `env_specs` has its specs and keys, `rollouts` its
  loops, `done_states` the entries that end and restart episodes, `mdp_steps` the move from step to step
- `spec_checks`: whether an environment's entries fit its specs
- `exploration`: TorchRL's names of the interaction type
- `gym`: gymnasium's environments as `EnvBase`; `environments` is one interface for single ones, vectors
  and encoded ones, `info_readers` reads info dicts, `spaces` makes specs and encodings from spaces,
  `recording` is for faster loops; `pettingzoo` has environments of several agents
- `batched_env`: many environments in this process, and their common base with `parallel_env`, which runs
  `env_worker` in other processes; `env_creator` makes environments that share running statistics

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use
from lite.envs import transforms

# The public names by the modules that define them.
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
