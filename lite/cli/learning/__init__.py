"""The parts of `lite learn`, in reading order.

- `rows`: the lines of its files
- `rewards`: built-in rewards, and functions of the user's own
- `lessons`: token ids of rows, and which of them learn
- `losses`: what is minimised
- `learnt`: all weights or adapters, as files and in the running model
- `learner`: batches, losses and steps of the model that learns
- `folder`: the output folder, from which an interrupted run goes on
- `page`: the curves as a page
"""
