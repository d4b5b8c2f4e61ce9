"""Losses for policies that learn from recorded data alone.

cql     conservative Q-learning: actions outside of the data are valued low; discrete, too
iql     implicit Q-learning: actions outside of the data are not valued at all; discrete, too
td3_bc  TD3 whose policy stays near the data
"""
