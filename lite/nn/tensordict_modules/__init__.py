"""Modules that read entries of a TensorDict and write others.

In reading order: `base` knows keys and their selection; `dispatch` lets arrays be given in place of a
TensorDict, `sendable` lets lambdas into pickles; `module` calls something with entries, `sequential` chains
modules, `wrappers` are around whole TensorDicts or another module, `tensorclass_module` works on
tensorclasses. `probabilistic` makes a distribution of entries and takes samples of
it, `probabilistic_sequential` ends in it; `entry_specs` has the specs of what modules write; `q_value` acts
by the values of actions.
"""
