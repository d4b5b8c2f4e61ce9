"""The names of `torch.nn.utils` and `tensordict.nn.utils`, where scripts import them from."""

from lite.nn._parameters.clipping import clip_grad_norm_, clip_grad_value_
from lite.nn._parameters.tree import parameters_to_vector, vector_to_parameters
from lite.nn.layers.normal_params import add_custom_mapping, biased_softplus, expln, inv_softplus, mappings
from lite.nn.settings import set_skip_existing, skip_existing

__all__ = [
    "add_custom_mapping", "biased_softplus", "clip_grad_norm_", "clip_grad_value_", "expln", "inv_softplus",
    "mappings", "parameters_to_vector", "set_skip_existing", "skip_existing", "vector_to_parameters"
]  # fmt: skip
