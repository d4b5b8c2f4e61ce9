"""QMixerLoss: by hand, and as steps of a graph."""

import numpy as np
from helpers.cases import raises

import lite
from lite import TensorDict, nn, optim
from lite.nn.losses import QMixerLoss, SoftUpdate

RNG = np.random.default_rng(0)
NAMES = [("agents", name) for name in ("action", "action_value", "chosen_action_value")]


def local_values(seed: int = 0) -> nn.TensorDictSequential:
    net = nn.MultiAgentMLP(3, 2, 2, centralized=False, share_params=True, num_cells=[4], rng=seed)
    return nn.TensorDictSequential(
        nn.TensorDictModule(net, [("agents", "observation")], [NAMES[1]]),
        nn.QValueModule(action_space="categorical", action_value_key=NAMES[1], out_keys=NAMES),
    )


def batch(size: int = 6) -> TensorDict:
    def seen() -> TensorDict:
        agents = {"observation": RNG.standard_normal((size, 2, 3), np.float32)}
        state = RNG.standard_normal((size, 5), np.float32)
        return TensorDict(agents=TensorDict(agents, [size, 2]), state=state, batch_size=[size])

    td, ends = seen(), RNG.random((size, 1)) < 0.5
    td[NAMES[0]] = RNG.integers(0, 2, (size, 2))
    reward = RNG.standard_normal((size, 1), np.float32)
    td["next"] = seen().update({"reward": reward, "done": ends, "terminated": ends})
    return td


def test_the_sum_of_the_values_of_all() -> None:
    local, td = local_values(), batch()
    loss = QMixerLoss(local, nn.VDNMixer(2), action_space="categorical").make_value_estimator(gamma=0.9)
    SoftUpdate(loss, tau=0.5)
    ahead = local(td["next"].copy())[NAMES[1]]
    for parameter in loss.parameters():
        parameter.data *= 1.5  # the targets are what they were
    values = local(td.copy())[NAMES[1]]
    chosen = np.take_along_axis(values, td[NAMES[0]][..., None], -1).sum((1, 2))
    target = td["next", "reward"][:, 0] + 0.9 * ahead.max(-1).sum(1) * ~td["next", "terminated"][:, 0]
    np.testing.assert_allclose(loss(td)["loss"], ((chosen - target) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(td["td_error"][:, 0], (chosen - target) ** 2, rtol=1e-5)
    assert NAMES[2] not in td  # what the networks write stays in the loss
    raises(KeyError, "QMixerLoss reads the entry", lambda: loss(td.exclude(NAMES[0])))


def test_a_step_is_a_graph() -> None:
    found = []
    batches = [batch(), batch(7)]
    for made in (lite.jit, lambda step: step):
        mixer = nn.TensorDictModule(
            nn.QMixer((5,), 4, 2, rng=1), [NAMES[2], "state"], ["chosen_action_value"]
        )
        loss = QMixerLoss(local_values(), mixer, action_space="categorical").make_value_estimator(gamma=0.9)
        adam, target = optim.Adam(loss.parameters(), lr=0.1), SoftUpdate(loss, tau=0.5)

        @made
        @lite.enable_grad()
        def step(td, loss=loss, adam=adam, target=target):
            value = loss(td)["loss"]
            value.backward()
            adam.step()
            adam.zero_grad()
            target.step()
            return value

        found.append([float(step(td)) for td in batches * 3])
    np.testing.assert_allclose(*found, rtol=1e-4)
    assert found[0][0] != found[0][2]
