"""The base class of modules, and its parts.

In reading order: `meta` has arrays without data, `parameter` the class of parameters, `initial` their
creation and initial values, and those without a shape; `registry` holds and traverses
parameters, buffers and children; `hooks`, `casting` (dtypes and devices) and `state_dict` build on it;
`module` combines all of them, and `lazy` has modules that infer their sizes.
"""
