"""The parameters that a model learns: all its weights, or adapters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lite.cli.learning.folder import MODEL
from lite.cli.progress import say
from lite.models import ModelConfig, OnnxDecoder, OnnxWrapper, TrainablePolicy
from lite.models.decoder.adapters import LEARNT
from lite.nn import add_adapter_inputs

_NAME = "learnt"  # of adapters
_MATRIX_A = ".lora_A.weight"
_TOKENS: dict[str, Any] = {"assistant_only": True, "input_mode": "tokens", "pad_output": True}


class AllWeights:
    """All weights learn; the model is rewritten with them.

    Args:
        path: the model's folder.
        args: arguments of the command.
        output: the folder of the run.

    Attributes:
        decoder: the model that runs.
        adapter: the name of the adapter that it runs with; None for none.
    """

    adapter: str | None = None

    def __init__(self, path: Path, args: argparse.Namespace, output: Path) -> None:
        self._path, self._args, self._output = path, args, output
        self.decoder = _opened(path, args)

    def policy(self, wrapper: OnnxWrapper) -> TrainablePolicy:
        """A policy that scores the wrapper's tokens, differentiable by the learned parameters."""
        return wrapper.trainable(checkpoint=self._args.checkpoint or False, **_TOKENS)

    def save(self, policy: TrainablePolicy, params: Any) -> str:
        """Write what was learnt; the text says where it is."""
        target = policy.save(self._output / MODEL, params)
        return f"in {target}, a model as any other"


class Adapters(AllWeights):
    """Low-rank adapters learn; the model's graph is written with inputs for them, and they in files.

    Args, Attributes: as of `AllWeights`.
    """

    adapter = _NAME

    def policy(self, wrapper: OnnxWrapper) -> TrainablePolicy:
        """As `AllWeights.policy`.

        Raises:
            FileNotFoundError: the file of `--adapter` does not exist.
            ValueError: it is not a file of adapters, or its layers or rank differ.
        """
        args = self._args
        adapters = {"alpha": args.alpha, "targets": args.targets, "rng": args.seed}
        adapters |= {"rank": args.rank} if args.adapter is None else {"adapter": args.adapter}
        try:
            return self._adapted(wrapper, adapters)
        except (FileNotFoundError, ValueError) as error:
            if args.adapter is None:
                raise
            text = str(error).removeprefix("adapter: ")
            raise type(error)(f"--adapter {args.adapter}: {text}") from None

    def _adapted(self, wrapper: OnnxWrapper, adapters: dict[str, Any]) -> TrainablePolicy:
        args = self._args
        policy = wrapper.trainable(
            lora=adapters, adapter=_NAME, checkpoint=args.checkpoint or False, **_TOKENS
        )
        ranks = {
            array.shape[1] for name, array in policy.learnt_weights().items() if name.endswith(_MATRIX_A)
        }
        if args.rank is not None and ranks != {args.rank}:
            raise ValueError(
                f"it has the rank {', '.join(map(str, sorted(ranks)))}, and --rank is {args.rank}"
            )
        return policy

    def save(self, policy: TrainablePolicy, params: Any) -> str:
        """As `AllWeights.save`: onnxruntime's file, and PEFT's where safetensors is installed."""
        file = policy.save(self._output / LEARNT, params)
        try:
            policy.save(self._output, params)
        except ImportError as error:
            say(self._args, f"adapter_model.safetensors is not written: {error}")
        config = ModelConfig.from_directory(self._path, variant=self._args.variant)
        target = config.copy_beside(self._output / MODEL)
        # By name: an adapter that it began with may have other layers than `targets` says.
        layers = [adapter.name for adapter in policy.model.graph._adapters()]
        add_adapter_inputs(config.graph, target / config.graph.name, targets=layers)
        return f"in {file}, an adapter of {target}"


def _opened(path: Path, args: argparse.Namespace) -> OnnxDecoder:
    return OnnxDecoder(path, num_threads=args.threads, variant=args.variant)
