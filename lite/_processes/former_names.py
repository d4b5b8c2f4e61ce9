"""Modules of version 0.1 by the names that they had, for pickles that were written then.

A pickle names the module of each class and function in it. Public classes now say that they live in the
public package, which stays; older pickles name files that have moved since. An import of such a name gives
the module that has its content today: a finder at the end of `sys.meta_path` is asked only for names that
nothing else finds, so that nobody pays for it. Only modules are listed that have something to pickle.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Modules of which pickles hold only public names, by the package that has these.
_PUBLIC = {
    "lite": """
        _base _collection _combine _compare _defaults _factories _foreign _keys _lazy _masking
        _module_functions _pad _printoptions _rows _tensorclass_decorator
    """,
    "lite.nn": """
        _as_tensordict_module _dispatch _from_module _interaction_type _load_safetensors _log_prob_names _meta
        bilinear convolution containers dropout embedding ensemble flatten linear module normal_params
        normalization parameter params pooling recurrent softmax td_module td_module_base td_probabilistic
        td_probabilistic_sequential td_sequential td_wrappers tensorclass_module transformer
    """,
    "lite.nn.distributions": """
        bernoulli categorical delta llm_masked_categorical masked_categorical normal one_hot_categorical
        ordinal tanh_normal truncated_normal uniform
    """,
    "lite.data": "densify_reward multistep multistep_transform token_transitions",
    "lite.models": """
        chat_template decoder_protocol embedded generation_config history llm_data llm_wrapper model_config
        onnx_module onnx_wrapper scoring tokenizer
    """,
}
FORMER = {
    **{f"{package}.{name}": package for package, names in _PUBLIC.items() for name in names.split()},
    "lite._nontensor": "lite._tree.nontensor",
    "lite._pickle": "lite._processes.pickling",
    "lite._state_dict": "lite._convert.state_dict",
    "lite._files.filemap": "lite._files.mapping",
    "lite.nn._compile": "lite.nn._modules.compile",
    "lite.nn._hooks": "lite.nn._modules.hooks",
    "lite.nn._mappings": "lite.nn.layers.normal_params",
    "lite.nn._seeds": "lite.nn.tensordict_modules.probabilistic",
    "lite.nn._state_dict": "lite.nn._modules.state_dict",
    "lite.nn.activations": "lite.nn.layers.activations",
    "lite.nn.attention": "lite.nn.layers.attention",
    "lite.nn.distributions._tanh": "lite.nn.distributions.continuous.tanh",
    "lite.nn.distributions.tanh": "lite.nn.distributions.continuous.tanh",
    "lite.nn.gelu": "lite.nn.layers.activations",
    "lite.nn.mlp": "lite.nn.layers.mlp",
    "lite.nn.recurrent_cells": "lite.nn.layers.recurrent_cells",
    "lite.nn.transformer_layers": "lite.nn.layers.transformer",
    "lite.models.graph_call": "lite.models.graph.call",
    "lite.models.graph_spec": "lite.models.decoder.conventions",
    "lite.models.graph_tensors": "lite.models.graph.tensors",
    "lite.models.session": "lite.models.graph.session",
    "lite.models.shared_session": "lite.models.graph.session",
}


class _Present:
    """Puts the module that has the content today in the place of a former one.

    It has what imports call, and no base in `importlib.abc`, whose import takes a sixth of lite's.
    """

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(FORMER[module.__name__])


class _FormerNames:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader: Any = _Present()
        return ModuleSpec(fullname, loader) if fullname in FORMER else None


def register() -> None:
    """Let imports of former names succeed."""
    sys.meta_path.append(_FormerNames())
