"""`grad`: an interpreter of NumPy's protocols that records what is computed and goes back for the derivative.

In reading order:

- `transform`: `grad`, `value_and_grad` and `vjp`, with `leaves` (arguments taken apart, put together again);
- `array`: the arrays that a function sees in between; `tape`: what they note, and the walk back;
- `ufuncs`: from a call of a NumPy function to its rule (`rules/`), and from one of a ufunc; `indexing`
  for brackets and writes, `views` for writes that other arrays see, `special` for functions that lite has and
  NumPy lacks; `along` for axes;
- `custom`: derivatives that a user writes, and results computed again instead of kept;
- `mode`: whether parameters take part by themselves, and `backward`.

There is no tape as an object. An array refers to its node, a node to its parents, and increasing numbers give
the order of the backward pass. So nodes without references are freed, and threads share nothing.

Nothing but `running` is imported before it is used.
"""
