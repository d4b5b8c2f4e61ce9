"""The parameters of modules as TensorDicts.

In reading order: `tree` is what is done to a tree of parameters, `params` the TensorDict that is a module;
`from_module` and `to_module` take parameters from a module and put them into it; `ensemble` is a module with
several sets of them.
"""
