"""Watching a run: numbers, texts and videos in files, and drawings of them.

logger              what all loggers have
csv_logger          a file for each number's history, as torchrl's logger writes them
tensorboard_logger  files that TensorBoard shows
wandb_logger        runs of Weights & Biases; mlflow_logger those of MLflow
video_recorder      a transform that keeps frames for a logger; pixel_render one that renders them
video_files         frames as files that players show
get_logger          loggers by name, and names of experiments
curves              drawings of what several runs have logged
"""
