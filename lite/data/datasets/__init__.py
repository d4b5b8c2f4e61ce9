"""Data sets recorded by others, as TensorDicts in memory-mapped files.

conversion         a folder of mapped files that is filled piece by piece, and appears when it is whole
minari             Minari's episodes, whose files minari_hdf5 and minari_arrow (also Parquet) read
minari_replay      those as a replay buffer
offline_to_online  a share of recorded data in each batch, and what is added
lerobot            LeRobot's Parquet files and videos, whose images frames decodes

Folders that torch's tensordict has written need no conversion: `TensorDict.load_memmap` opens them. h5py and
pyarrow load on use.
"""
