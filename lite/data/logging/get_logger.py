"""get_logger and generate_exp_name: loggers by name, and names of experiments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from lite.data.logging.csv_logger import CSVLogger
from lite.data.logging.logger import Logger
from lite.data.logging.mlflow_logger import MLFlowLogger
from lite.data.logging.tensorboard_logger import TensorboardLogger
from lite.data.logging.wandb_logger import WandbLogger

_LOGGERS: dict[str, Callable[..., Any]] = {
    "csv": partial(CSVLogger, video_format="mp4"),
    "mlflow": lambda log_dir, exp_name, **kwargs: MLFlowLogger(
        exp_name, **{"tracking_uri": Path(log_dir).absolute().as_uri(), **kwargs}
    ),
    "tensorboard": TensorboardLogger,
    "wandb": WandbLogger,
}


def generate_exp_name(model_name: str, experiment_name: str) -> str:
    """A name that no other run has: both names, eight random characters, and the time.

    Source:
        torchrl.record.loggers.generate_exp_name.

    Example:
        >>> from lite.data import generate_exp_name
        >>> generate_exp_name("DQN", "cartpole").split("_")[:2]
        ['DQN', 'cartpole']
    """
    now = datetime.now().strftime("%y_%m_%d-%H_%M_%S")
    return f"{model_name}_{experiment_name}_{str(uuid.uuid4())[:8]}_{now}"


def get_logger(
    logger_type: str | None,
    logger_name: str,
    experiment_name: str,
    *,
    state_dict: Mapping[str, Any] | None = None,
    wandb_kwargs: Mapping[str, Any] | None = None,
    mlflow_kwargs: Mapping[str, Any] | None = None,
) -> Logger | None:
    """A logger by its name.

    Args:
        logger_type: "csv", "tensorboard", "wandb" or "mlflow"; "" and None for no logger.
        logger_name: the folder of all experiments.
        experiment_name: the name of the experiment.
        state_dict: state of the logger of a run that goes on: its names and counters are taken instead.
        wandb_kwargs, mlflow_kwargs: more for a `WandbLogger`, or a `MLFlowLogger`.

    Returns:
        the logger, or None.

    Raises:
        NotImplementedError: another name; "mlflow" with `state_dict`.
        ValueError: the state of a `WandbLogger` names no run.
        ImportError: what the logger needs is not installed.

    Source:
        torchrl.record.loggers.get_logger.

    Example:
        >>> import tempfile
        >>> from lite.data import get_logger
        >>> get_logger("csv", tempfile.mkdtemp(), "first").exp_name
        'first'
    """
    if logger_type in ("", None):
        return None
    if logger_type not in _LOGGERS:
        raise NotImplementedError(f"logger_type must be one of {sorted(_LOGGERS)}, got {logger_type!r}.")
    kwargs = dict({"wandb": wandb_kwargs, "mlflow": mlflow_kwargs}.get(str(logger_type)) or {})
    if state_dict is not None:
        if logger_type == "mlflow":
            raise NotImplementedError("a run of MLflow cannot go on: state_dict must be None.")
        logger_name, experiment_name = state_dict["log_dir"], state_dict["exp_name"]
        if logger_type == "wandb":
            kwargs |= {"id": state_dict.get("local", {}).get("id"), "resume": "must"}
            if not kwargs["id"]:
                raise ValueError("state_dict must have the id of wandb's run, got none.")
    logger: Logger = _LOGGERS[str(logger_type)](log_dir=logger_name, exp_name=experiment_name, **kwargs)
    if state_dict is not None:
        logger.load_state_dict(state_dict)
    return logger
