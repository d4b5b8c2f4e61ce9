"""Specs: what shape, dtype and values entries have, before there are any.

A size of -1 is not known, or differs between rows: any size is in, and values that a spec makes have 1 there.
Values may have further dimensions in front of a spec's.

`base` has what all specs share, and the values that are allowed; `arrays`, `classes`, `multi_categorical`,
`objects` and `composite` have one kind each; `of_data` makes specs of values.
"""
