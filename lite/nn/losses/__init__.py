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

Names are loaded on first use: a program needs one or two losses.
"""

from lite._arrays.public import import_on_first_use

# The public names by what defines them.
_NAMES = {
    "a2c": "A2CLoss ReinforceLoss",
    "base": "LossModule",
    "bc": "BCLoss",
    "ddpg": "DDPGLoss TD3Loss",
    "dqn": "DQNLoss DistributionalDQNLoss",
    "estimators": "ValueEstimators default_value_kwargs",
    "kl_ppo": "KLPENPPOLoss",
    "language.dpo": "DPOLoss DPOLossOutput dpo_loss",
    "language.grpo": "aggregate_tokens grpo_loss kl_penalty",
    "language.grpo_losses": (
        "DAPO CISPOLoss CISPOLossOutput DAPOLossOutput GRPOLoss GRPOLossOutput LLMLossOutput"
    ),
    "language.sft": "SFTLoss SFTLossOutput minor_sft_loss sft_loss",
    "offline.cql": "CQLLoss DiscreteCQLLoss",
    "offline.iql": "DiscreteIQLLoss IQLLoss",
    "offline.td3_bc": "TD3BCLoss",
    "ppo": "ClipPPOLoss IPPOLoss MAPPOLoss PPOLoss",
    "qmixer": "QMixerLoss",
    "redq": "REDQLoss",
    "reduction": "distance_loss",
    "rnd": "RNDLoss",
    "sac": "CrossQLoss DiscreteSACLoss SACLoss",
    "updates": "HardUpdate SoftUpdate TargetNetUpdater",
    ".values.entries": "hold_out_net",
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)
