"""Value estimators: modules that write advantages and the targets of a value network to a TensorDict.

entries        checks of entries that modules read
base           keys, options, what all estimators read and check; those that one kernel computes
network_calls  the value network on observations and next observations
td             TD(0), TD(1) and TD(lambda)
gae            generalized advantage estimates, for one agent and for several
off_policy     V-trace and Retrace, which learn from the steps of another policy
standardize    mean 0 and deviation 1, of all values or in groups
value_norm     running scales of returns, by which advantages are divided

The recursions are `lite.kernels`'. `lite.data` exports the estimators, where rollouts come from; losses
(`lite.nn.losses`) make their own.

Names are loaded on first use, as collectors need `entries` only.
"""

from lite._arrays.public import import_on_first_use

# The public names by what defines them.
_NAMES = {
    "base": "ValueEstimatorBase",
    "gae": "GAE MultiAgentGAE",
    "off_policy": "Retrace VTrace",
    "td": "TD0Estimator TD1Estimator TDLambdaEstimator",
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)
