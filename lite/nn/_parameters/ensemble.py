"""EnsembleModule: one module with several sets of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import TensorDict, lazy_stack
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite.nn._parameters.params import TensorDictParams
from lite.nn.tensordict_modules.base import TensorDictModuleBase


class EnsembleModule(TensorDictModuleBase):
    """Run a module with `num_copies` independent sets of parameters.

    `params_td` holds the parameters, each stacked along a new first dimension with its own initial values for
    every copy; `module` is the template. The result of a call is a new TensorDict in which the first
    dimension of every entry, also of inputs, is that of the copies.

    Args:
        module: a module with `in_keys` and `out_keys`.
        num_copies: the number of sets of parameters.
        expand_input: pass the whole input to every copy. False takes an input whose first batch dimension
            has one element per copy, such as the result of another ensemble.
        rng: generator or seed for the initial parameters.

    Raises:
        ValueError: without `expand_input`, if the first batch dimension of an input is not `num_copies`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> net = nn.TensorDictModule(nn.Linear(4, 2), in_keys=["a"], out_keys=["b"])
        >>> ensemble = nn.EnsembleModule(net, num_copies=3)
        >>> out = ensemble(TensorDict(a=np.zeros((10, 4), np.float32), batch_size=[10]))
        >>> out["b"].shape, out.batch_size
        ((3, 10, 2), (3, 10))
    """

    def __init__(
        self,
        module: TensorDictModuleBase,
        num_copies: int,
        expand_input: bool = True,
        *,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__()
        self.in_keys = list(module.in_keys)
        self.out_keys = list(module.out_keys)
        self.num_copies = num_copies
        self.expand_input = expand_input
        params = TensorDict.from_module(module).data.expand(num_copies).clone()
        self.module = module
        self.reset_parameters_recursive(params, rng=rng)
        self.params_td = TensorDictParams(params)

    def forward(self, tensordict: Any) -> Any:
        """Run all copies at once; the input is not changed."""
        if not self.expand_input:
            size = tuple(tensordict.batch_size)
            if size[:1] != (self.num_copies,):
                raise ValueError(
                    f"expand_input=False needs a first batch dimension of num_copies={self.num_copies}, "
                    f"got batch_size={size}."
                )
        from lite import vmap  # its rules are imported on first use

        in_dims = (0, None if self.expand_input else 0)
        return vmap(self._call, in_dims, randomness="different")(self.params_td, tensordict)

    def _call(self, params: Any, tensordict: Any) -> Any:
        with params.to_module(self.module):
            return self.module(tensordict)

    def reset_parameters_recursive(
        self, parameters: Any = None, *, rng: np.random.Generator | int | None = None
    ) -> Any:
        """Reset sets of parameters of `module` to new initial values, in place.

        Args:
            parameters: a TensorDict of `module`'s parameters; each element of its batch is one set.
            rng: generator or seed.

        Returns:
            A TensorDict of the same arrays.

        Raises:
            ValueError: `parameters` is not given.
        """
        if parameters is None:
            raise ValueError("an EnsembleModule needs the parameters to reset: pass parameters.")
        generator = None if rng is None else np.random.default_rng(rng)
        if parameters.batch_size:
            parts = [self.reset_parameters_recursive(part, rng=generator) for part in parameters.unbind(0)]
            return lazy_stack(parts, -1 if parts and parts[0].ndim else 0)
        extra = [name for name, _ in self.named_children() if name not in ("module", "params_td")]
        if extra:
            warn(
                f"reset_parameters_recursive of an EnsembleModule resets the parameters of its module only, "
                f"not those of {extra}.",
            )
        return self.module.reset_parameters_recursive(parameters, rng=generator)


belong_to("lite.nn", EnsembleModule)
