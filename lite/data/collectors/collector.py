"""`Collector`: environments and a policy, seen as an iterator over batches of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from lite import TensorDict, TensorDictBase, is_tensor_collection
from lite._arrays.public import belong_to
from lite._processes.map import ProgressBar
from lite.data.collectors.env_rollout import EnvFace, EnvRollout, environments_of
from lite.data.collectors.rollout import Rollout
from lite.data.collectors.whole_trajectories import WholeTrajectories
from lite.data.trajectories.split_trajectories import split_trajectories
from lite.envs.base import EnvBase
from lite.envs.environments import EnvError
from lite.envs.random_policy import RandomPolicy
from lite.envs.transforms.step_transforms import StepCounter, StepTransform
