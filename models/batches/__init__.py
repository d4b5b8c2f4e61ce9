"""Language models on tables: classes that take a batch of rows as a dict of NumPy arrays, and give one.

That is what `ray.data.Dataset.map_batches` calls in its actors, and what Dask's partitions and `datasets`'s
batches can be given as well; nothing here needs any of them.

- `rows`: prompts and responses, as texts or conversations, as token ids
- `opening`: the model of an actor, with as many threads as the actor has processors
- `score_batches`, `generate_batches`: the two classes
"""
