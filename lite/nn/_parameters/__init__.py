"""The parameters of modules as TensorDicts.

In reading order: `tree` has operations on a tree of parameters, also as one vector, `params` the TensorDict
that is a module; `from_module` reads the parameters of a module and `to_module` exchanges them; `ensemble` is
a module with several sets of parameters; `clipping` scales gradients.
"""
