"""`step_mdp` of flat, nested and lazy TensorDicts; `tests/parity/test_envs.py` compares its options."""

import numpy as np
import pytest

from lite import TensorDict, lazy_stack
from lite.envs import step_mdp
from lite.envs.mdp_steps import StepMDP, key_tree
from lite.models import ChatHistory, History
from lite.models.text.history import FIELDS


def one(value=1.0, nested=True):
    td = TensorDict(obs=value, action=value, extra=value, done=False)
    td["next"] = TensorDict(obs=value + 1, reward=value, done=True)
    if nested:
        td["agents", "obs"] = value
        td["agents", "action"] = value
        td["next", "agents"] = TensorDict(obs=value + 2, reward=value)
    return td


KEYS = {
    "observation_keys": ["obs", ("agents", "obs")],
    "state_keys": [],
    "action_keys": ["action", ("agents", "action")],
    "done_keys": ["done"],
    "reward_keys": ["reward", ("agents", "reward")],
}


def test_it_shares_arrays_and_leaves_its_input():
    td = one()
    out = step_mdp(td)
    assert out["obs"] is td["next", "obs"]
    assert "next" in td
    assert sorted(map(str, out.keys(True, True))) == sorted(
        map(str, ["obs", "extra", "done", ("agents", "obs"), ("agents", "action"), ("agents", "reward")])
    )
    into = TensorDict(other=3)
    assert step_mdp(td, into) is into
    assert into["other"] == 3
    with pytest.raises(KeyError):
        step_mdp(TensorDict(a=1))


def test_empty_nodes_are_left_out():
    td = TensorDict(
        obs=1, text="a", agents=TensorDict(), next=TensorDict(obs=2, agents=TensorDict(), n={"s": "b"})
    )
    assert sorted(step_mdp(td).keys()) == ["n", "obs", "text"]
    assert sorted(step_mdp(td, keep_other=False).keys()) == ["n", "obs"]
    assert step_mdp(td)["n", "s"] == "b"


def test_conversations_of_other_lengths_stay_conversations():
    turns = [{"role": "user", "content": text} for text in "abc"]
    now, then = ([turns[:n] for n in lengths] for lengths in ((1, 2), (3, 1)))
    td, td["next"] = (
        TensorDict(history=ChatHistory(prompt=History.from_chats(chats), batch_size=[2]), batch_size=[2])
        for chats in (now, then)
    )
    keys = {name: [] for name in KEYS} | {"observation_keys": [("history", "prompt", x) for x in FIELDS]}
    chats = StepMDP(**keys)(td)["history"].prompt.to_chats()
    assert [[turn["content"] for turn in chat] for chat in chats] == [["a", "b", "c"], ["a"]]
    assert chats[0][0]["is_complete"] is True  # no array of flags


def test_sorted_keys_say_the_same():
    for keep_other in (True, False):
        for exclude_action in (True, False):
            options = {"keep_other": keep_other, "exclude_action": exclude_action}
            out = StepMDP(**KEYS, **options)(one())
            wanted = step_mdp(
                one(), **options, reward_keys=KEYS["reward_keys"], action_keys=KEYS["action_keys"],
                done_keys=KEYS["done_keys"],
            )  # fmt: skip
            assert set(out.keys(True, True)) == set(wanted.keys(True, True))
            assert (out == wanted).all()


def test_rows_of_a_lazy_stack_go_on_one_by_one():
    stacked = lazy_stack([one(1.0), one(5.0)])
    for out in (step_mdp(stacked), StepMDP(**KEYS)(stacked)):
        np.testing.assert_array_equal(out["obs"], [2.0, 6.0])
    only_next = TensorDict({"action": np.zeros(2)}, [2])
    only_next["next"] = lazy_stack([TensorDict(obs=1.0), TensorDict(obs=2.0)])
    flat = StepMDP(["obs"], [], ["action"], ["done"], ["reward"], exclude_action=False)
    for out in (flat(only_next), step_mdp(only_next, keep_other=False)):
        np.testing.assert_array_equal(out["obs"], [1.0, 2.0])
    inner = TensorDict({"agents": lazy_stack([TensorDict(a=1, b=2), TensorDict(a=3, c=4)])}, [2])
    inner["next"] = TensorDict({"agents": lazy_stack([TensorDict(b=5), TensorDict(b=6)])}, [2])
    out = step_mdp(inner, action_keys=("agents", "a"))["agents"]
    assert [sorted(part.keys()) for part in out.tensordicts] == [["b"], ["b", "c"]]


def test_arrays_alone_take_a_shorter_way():
    flat = StepMDP(["obs"], [], ["action"], ["done"], ["reward"])
    td = one(nested=False)
    assert sorted(flat(td).keys()) == ["done", "extra", "obs"]
    td["next", "obs"] = TensorDict(x=1)  # no array: the longer way
    assert flat(td)["obs", "x"] == 1


def test_a_shorter_key_covers_those_below():
    assert key_tree(["a", ("a", "b"), ("c", "d")]) == {"a": None, "c": {"d": None}}
