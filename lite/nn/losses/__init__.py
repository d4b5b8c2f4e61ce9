"""Losses: modules that read a batch and return the losses.

base        what all losses have
reduction   distances between values, and from losses per element to one number
estimators  which estimator of targets and advantages a loss makes
updates     how target parameters follow those that learn
dqn         temporal differences of action values, and of their distributions; qmixer, of several agents
policies    functions of a policy's distribution
ppo         a policy that stays near the one that acted, or several; kl_ppo, with a penalty instead of a limit
ensembles   several networks of one form, called at once
alpha       the weight of entropy, learned or fixed
sac         soft actor-critic, also for a few actions; redq, with many critics
ddpg        a deterministic policy that follows its critic, or several (TD3)
offline     policies that learn from recorded data alone: conservative and implicit Q-learning, TD3+BC
a2c         log-probs weighted by advantages, and REINFORCE, without a bonus for entropy
bc          behaviour cloning; rnd, a measure of how new observations are
language    losses of language models: GRPO and its kin, supervised fine-tuning, DPO
"""

from lite._arrays.public import belong_here as _belong_here
from lite.nn.losses.a2c import A2CLoss, ReinforceLoss
from lite.nn.losses.base import LossModule
from lite.nn.losses.bc import BCLoss
from lite.nn.losses.ddpg import DDPGLoss, TD3Loss
from lite.nn.losses.dqn import DistributionalDQNLoss, DQNLoss
from lite.nn.losses.estimators import ValueEstimators, default_value_kwargs
from lite.nn.losses.kl_ppo import KLPENPPOLoss
from lite.nn.losses.language.dpo import DPOLoss, DPOLossOutput, dpo_loss
from lite.nn.losses.language.grpo import aggregate_tokens, grpo_loss, kl_penalty
from lite.nn.losses.language.grpo_losses import (
    DAPO,
    CISPOLoss,
    CISPOLossOutput,
    DAPOLossOutput,
    GRPOLoss,
    GRPOLossOutput,
    LLMLossOutput,
)
from lite.nn.losses.language.sft import SFTLoss, SFTLossOutput, minor_sft_loss, sft_loss
from lite.nn.losses.offline.cql import CQLLoss, DiscreteCQLLoss
from lite.nn.losses.offline.iql import DiscreteIQLLoss, IQLLoss
from lite.nn.losses.offline.td3_bc import TD3BCLoss
from lite.nn.losses.ppo import ClipPPOLoss, IPPOLoss, MAPPOLoss, PPOLoss
from lite.nn.losses.qmixer import QMixerLoss
from lite.nn.losses.redq import REDQLoss
from lite.nn.losses.reduction import distance_loss
from lite.nn.losses.rnd import RNDLoss
from lite.nn.losses.sac import CrossQLoss, DiscreteSACLoss, SACLoss
from lite.nn.losses.updates import HardUpdate, SoftUpdate, TargetNetUpdater
from lite.nn.values.entries import hold_out_net

__all__ = [
    "DAPO", "A2CLoss", "BCLoss", "CISPOLoss", "CISPOLossOutput", "CQLLoss", "ClipPPOLoss", "CrossQLoss",
    "DAPOLossOutput", "DDPGLoss", "DPOLoss", "DPOLossOutput", "DQNLoss", "DiscreteCQLLoss", "DiscreteIQLLoss",
    "DiscreteSACLoss", "DistributionalDQNLoss", "GRPOLoss", "GRPOLossOutput", "HardUpdate", "IPPOLoss",
    "IQLLoss", "KLPENPPOLoss", "LLMLossOutput", "LossModule", "MAPPOLoss", "PPOLoss", "QMixerLoss",
    "REDQLoss", "RNDLoss", "ReinforceLoss", "SACLoss", "SFTLoss", "SFTLossOutput", "SoftUpdate", "TD3BCLoss",
    "TD3Loss", "TargetNetUpdater", "ValueEstimators", "aggregate_tokens", "default_value_kwargs",
    "distance_loss", "dpo_loss", "grpo_loss", "hold_out_net", "kl_penalty", "minor_sft_loss", "sft_loss"
]  # fmt: skip

_belong_here(globals())
