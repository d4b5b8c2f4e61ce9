"""Value estimators: modules that write advantages and the targets of a value network to a TensorDict.

base                 keys, options, what all estimators read and check
network_calls        the value network on observations and next observations
td                   TD(0), TD(1) and TD(lambda)
advantage_estimator  what the next two share
gae                  generalized advantage estimates, for one agent and for several
off_policy           V-trace and Retrace, which learn from the steps of another policy
standardize          mean 0 and deviation 1, of all values or in groups
group_advantages     advantages among the responses to one prompt (GRPO), of a batch or of a stream

The recursions are `lite.kernels`'.
"""
