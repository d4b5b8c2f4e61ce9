import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite import TensorDict, from_modules, grad, jit, nn, vmap
from lite.data import Bounded, Composite, Unbounded
from lite.envs import ObservationNorm, RewardScaling, TransformedEnv
from lite.envs.transforms.affine import in_common_dtype


def test_there_and_back():
    for standard in (True, False):
        norm = ObservationNorm(2.0, 4.0, ["x"], ["y"], ["a"], ["b"], standard)
        out = norm(TensorDict(x=np.array([6.0], np.float32)))["y"]
        assert (float(out[0]), out.dtype) == (1.0 if standard else 26.0, np.float32)
        np.testing.assert_array_equal(norm.inv(TensorDict(b=out))["a"], [6])
        spec = norm.transform_observation_spec(Bounded(-2, 6, (1,)))
        assert spec == Bounded(*((-1, 1) if standard else (-6, 26)), (1,))


def test_dtypes_are_those_of_torch():
    for value, buffers, dtype in (
        (np.float32, [np.zeros((), np.float64)], np.float32),
        (np.float32, [np.zeros(2, np.float64)], np.float64),
        (np.int64, [np.zeros((), np.int64), np.zeros((), np.float32)], np.float32),
        (np.uint8, [np.zeros((), np.int64)], np.float32),
    ):
        for array in in_common_dtype(np.zeros(2, value), *buffers):
            assert array.dtype == dtype


def test_large_images_give_what_two_operations_give():
    x = np.random.default_rng(0).random((5, 3, 300, 300), np.float32)
    x.flags.writeable = False
    for shape in ((), (3, 1, 1), (5, 1, 1, 1), (2, 1, 3, 1, 1)):  # the last is larger than the images
        loc, scale = np.full(shape, 0.3, np.float32), np.full(shape, 0.7, np.float32)
        for standard in (True, False):
            norm = ObservationNorm(loc, scale, ["x"], ["y"], standard_normal=standard)
            out = norm(TensorDict(x=x))["y"]
            np.testing.assert_array_equal(out, (x - loc) / scale if standard else x * scale + loc)
            assert out.dtype == np.float32


def test_large_images_have_a_gradient_of_the_scale():
    norm = ObservationNorm(np.float32(0), np.float32(1), in_keys=["pixels"])

    def total(scale):
        norm._buffers["scale"] = scale
        return norm._apply_transform(np.ones((1 << 20, 1), np.float32)).sum()

    assert grad(total)(np.array(2, np.float32)) == 1 << 20


def test_least_scales():
    assert float(RewardScaling(0.0, 0.0).scale) == pytest.approx(1e-6)
    assert float(ObservationNorm(0.0, 0.0, in_keys=["x"]).scale) == pytest.approx(1e-6)
    assert ObservationNorm(0.0, np.zeros(2), in_keys=["x"]).eps == np.finfo(np.float64).eps


def test_statistics_have_to_be_there():
    norm = ObservationNorm(in_keys=["x"])
    assert not norm.initialized
    assert repr(norm) == "ObservationNorm(keys=['x'])"
    assert repr(ObservationNorm(1, 2, ["x"])) == "ObservationNorm(loc=1.0000, scale=2.0000, keys=['x'])"
    assert repr(ObservationNorm(1, np.ones(2), ["x"])) == repr(norm)
    raises(RuntimeError, "loc and scale are not set", lambda: norm(TensorDict(x=np.zeros(2))))
    raises(RuntimeError, "init_stats needs an environment", lambda: norm.init_stats(2))
    raises(ValueError, "cat_dim must be in reduce_dim", lambda: norm.init_stats(2, (0, 1), 2))
    norm.load_state_dict(ObservationNorm(np.ones(2), np.ones(2), ["x"]).state_dict())
    np.testing.assert_array_equal(norm(TensorDict(x=np.ones(2)))["x"], [2, 2])


def test_statistics_of_rollouts():
    for standard in (True, False):
        norm = ObservationNorm(in_keys=["observation"], standard_normal=standard)
        env = TransformedEnv(CountingEnv(limit=9), norm)
        norm.init_stats(5)
        loc, scale = (2.0, np.sqrt(2.5)) if standard else (-2 / np.sqrt(2.5), 1 / np.sqrt(2.5))
        np.testing.assert_allclose([norm.loc, norm.scale], [[loc], [scale]], rtol=1e-6)
        expected = -loc / scale if standard else loc
        np.testing.assert_allclose(env.reset()["observation"], [expected], rtol=1e-6)
    for keep_dims, shape in ((None, (1,)), ([0], (1, 1))):
        norm = ObservationNorm(in_keys=["observation"])
        env = TransformedEnv(CountingEnv(limit=9), norm)
        norm.init_stats(5, keep_dims=keep_dims)
        assert norm.loc.shape == norm.scale.shape == shape
    spec = Composite(a=Bounded(0, 4, (1,)))
    halved = ObservationNorm(2.0, 2.0, in_keys_inv=["a"], in_keys=[], standard_normal=True)
    for kind in ("action", "state"):
        assert getattr(halved, f"transform_{kind}_spec")(spec)["a"] == Bounded(-1, 1, (1,))


def test_rewards_with_bounds():
    with pytest.raises(NotImplementedError, match="needs an Unbounded spec of rewards, got Bounded"):
        RewardScaling(0, 1).transform_reward_spec(Bounded(-1, 1, (1,)))
    assert RewardScaling(0, 1).transform_reward_spec(Unbounded(1)) == Unbounded(1)


def test_in_a_network_that_learns():
    """The flag is an argument of a step, as all that it holds; members of a population each have one."""
    x = np.random.default_rng(0).random((1024, 1024), np.float32)
    nets = [
        nn.TensorDictSequential(
            ObservationNorm(loc, np.full(1024, 4.0, np.float32), ["x"], ["y"], standard_normal=standard),
            nn.TensorDictModule(nn.Linear(1024, 1, rng=0), ["y"], ["y"]),
        )
        for loc, standard in ((np.zeros(1024, np.float32), False), (np.ones(1024, np.float32), True))
    ]
    first = TensorDict(x=x, batch_size=[1024])

    def call(params, td):
        with params.to_module(nets[0]):
            return nets[0](td.copy())["y"]

    plain = np.stack([net(first.copy())["y"] for net in nets])
    params = from_modules(*nets)
    np.testing.assert_allclose(vmap(call, (0, None))(params, first), plain, atol=1e-4)
    for k in range(2):
        np.testing.assert_allclose(jit(call)(params[k], first), plain[k], atol=1e-4)
