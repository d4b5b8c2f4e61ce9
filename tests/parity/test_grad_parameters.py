"""Gradients torch's way, the same calls on both libraries: `.grad`, hooks, ensembles, TensorDicts."""

import types
import warnings

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.compared import on_both
from parity.outcomes import assert_agree, outcome, plain

import lite
import lite.nn

OURS = types.SimpleNamespace(
    nn=lite.nn, tdnn=lite.nn, TensorDict=lite.TensorDict, vmap=lite.vmap, enable_grad=lite.enable_grad,
    no_grad=lite.no_grad, array=lambda x: np.array(x, np.float32), sum=np.sum, tanh=np.tanh,
)  # fmt: skip
THEIRS = types.SimpleNamespace(
    nn=torch.nn, tdnn=tensordict.nn, TensorDict=tensordict.TensorDict, vmap=torch.vmap,
    enable_grad=torch.enable_grad, no_grad=torch.no_grad,
    array=lambda x: torch.tensor(np.array(x, np.float32)), sum=torch.sum, tanh=torch.tanh,
)  # fmt: skip


def agree(run):
    """The same results, or errors of the same class, from both libraries, and as many warnings."""
    found, warned = [], []
    for lib in (OURS, THEIRS):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found.append(outcome(run, lib))
        warned.append(len([w for w in said if w.category is UserWarning]))
    assert_agree(*found)
    assert warned[0] == warned[1], "warnings"


compared = on_both(agree)


def fill(module, seed=0):
    """The same numbers in the parameters of both."""
    rng = np.random.default_rng(seed)
    for _, parameter in sorted(module.named_parameters()):
        value = rng.standard_normal(tuple(parameter.shape)).astype(np.float32) / 2
        if isinstance(parameter, torch.Tensor):
            parameter.data = torch.from_numpy(value)
        else:
            parameter.data = value
    return module


def net(lib):
    return fill(lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2)))


X = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


def grads(module):
    return {name: parameter.grad for name, parameter in sorted(module.named_parameters())}


@each_case("what", ["vector", "gradient", "wrong gradient", "no_grad", "plain parameter"])
@compared
def test_what_backward_takes(lib, what):
    module = net(lib)
    with lib.enable_grad():
        out = module(lib.array(X))
        if what == "vector":
            out.backward()
        elif what == "gradient":
            out.backward(lib.array(np.arange(10).reshape(5, 2)))
        elif what == "wrong gradient":
            out.backward(lib.array(np.ones(3)))
        elif what == "no_grad":
            with lib.no_grad():
                frozen = module[0](lib.array(X))
            module[2](module[1](frozen)).sum().backward()
        else:
            module[0].bias.sum().backward()
    return grads(module)


@compared
def test_inputs(lib):
    module = net(lib)
    with lib.enable_grad():
        module(lib.array(X)).sum().backward(inputs=[module[2].weight])
    return grads(module)


@compared
def test_hooks_of_parameters(lib):
    module, log = net(lib), []
    weight = module[0].weight
    weight.register_hook(lambda g: log.append(plain(g)))
    handle = weight.register_hook(lambda g: g * 2)
    weight.register_hook(lambda g: log.append(plain(g)))
    weight.register_post_accumulate_grad_hook(lambda p: log.append(plain(p.grad)))
    with lib.enable_grad():
        (module(lib.array(X)) + module[0].weight.sum()).sum().backward()
        handle.remove()
        module(lib.array(X)).sum().backward()
    frozen = lib.nn.Parameter(lib.array([1.0]), requires_grad=False)
    try:
        frozen.register_hook(lambda g: None)
    except RuntimeError:
        log.append("refused")
    return log, weight.grad, weight.is_leaf, weight.grad_fn, weight.retains_grad


# -- hooks of modules ------------------------------------------------------------------------------


@compared
def test_full_backward_hooks_see_and_replace(lib):
    module, log = net(lib), []
    module[1].register_full_backward_pre_hook(lambda m, out: log.append(["pre", plain(out)]))
    module[1].register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    module[1].register_full_backward_hook(lambda m, i, o: log.append([plain(i), plain(o)]))
    module[1].register_full_backward_hook(lambda m, i, o: (i[0] + 1,))
    module[1].register_full_backward_hook(lambda m, i, o: log.append(["first", plain(i)]), prepend=True)
    with lib.enable_grad():
        module(lib.array(X)).sum().backward()
    return log, grads(module)


@compared
def test_the_first_module_has_no_gradient_of_its_input(lib):
    module, log = net(lib), []
    module.register_full_backward_hook(lambda m, i, o: log.append([plain(i), plain(o)]))
    with lib.enable_grad():
        module(lib.array(X)).sum().backward()
    return log, grads(module)


@each_case("kind", ["hook", "pre-hook", "replaced without inputs"])
@compared
def test_hooks_that_give_too_much(lib, kind):
    module = net(lib)
    if kind == "hook":
        module[1].register_full_backward_hook(lambda m, i, o: (i[0], i[0]))
    elif kind == "pre-hook":
        module[1].register_full_backward_pre_hook(lambda m, o: (o[0], o[0]))
    else:
        module[0].register_full_backward_hook(lambda m, i, o: o)
    with lib.enable_grad():
        module(lib.array(X)).sum().backward()
    return grads(module)


@compared
def test_modules_with_several_inputs_and_outputs(lib):
    class Two(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = lib.nn.Parameter(lib.array([2.0, 3.0, 4.0]))

        def forward(self, x, name, y):
            return x * self.scale, name, (x + y).sum()

    first, two, log = fill(lib.nn.Linear(3, 3)), Two(), []
    two.register_full_backward_hook(lambda m, i, o: log.append([plain(i), plain(o)]))
    two.register_full_backward_hook(lambda m, i, o: (i[0], None, i[2]))
    two.register_full_backward_pre_hook(lambda m, o: log.append(plain(o)))
    with lib.enable_grad():
        for use in (lambda a, b: a.sum() * b, lambda a, b: b, lambda a, b: a.sum()):
            a, _, b = two(first(lib.array(X)), "name", lib.array(X))
            use(a, b).backward()
    return log, first.weight.grad, two.scale.grad


@compared
def test_hooks_without_gradients(lib):
    module, log = net(lib), []
    module.register_full_backward_hook(lambda m, i, o: log.append(1))
    module.register_full_backward_pre_hook(lambda m, o: log.append(2))
    with lib.no_grad():
        out = module(lib.array(X))
    return out, log


# -- TensorDicts -----------------------------------------------------------------------------------


@compared
def test_grad_of_tensordicts(lib):
    module = net(lib)
    params = lib.TensorDict.from_module(module)
    found = [params.grad, params.requires_grad]
    with lib.enable_grad():
        module[0](lib.array(X)).sum().backward()
    found += [params.grad, params.zero_grad() is params, params.grad]
    params.grad = params.data.clone()
    found += [grads(module), params.requires_grad_(False) is params, params.requires_grad]
    params.grad = params.data.clone() * 2
    params.lock_()
    found += [grads(module), params.grad.is_locked]
    params.zero_grad(set_to_none=False)
    return [*found, params.grad]


@compared
def test_tensordict_params(lib):
    inner = lib.TensorDict({"a": lib.array([1.0, 2.0]), "b": {"c": lib.array([[3.0]])}}, [])
    params = lib.tdnn.TensorDictParams(inner)
    with lib.enable_grad():
        ((params["a"] * params["b", "c"]) ** 2).sum().backward()
    found = [params.grad, [p.grad for p in params.parameters()]]
    params.zero_grad()
    with lib.enable_grad():
        doubled = params * 2
        doubled["a"].sum().backward()
    found += [params.grad, params.requires_grad_(False).requires_grad]
    return found


@compared
def test_arithmetic_of_parameters_keeps_the_way_back(lib):
    params = lib.tdnn.TensorDictParams(lib.TensorDict({"a": lib.array([1.0, 2.0])}, []))
    found = []
    with lib.enable_grad():
        for use in (
            lambda p: (p * p)["a"],
            lambda p: (p + 1).exp()["a"],
            lambda p: p.clone()["a"],
            lambda p: p.reshape(()).unsqueeze(0).expand(3)["a"],
            lambda p: p.apply(lambda x: x * 3)["a"],
            lambda p: lib.TensorDict({"x": p["a"]}, [])["x"] * 2,
            lambda p: p.to(p["a"].dtype)["a"] * 5,
            lambda p: p.flatten_keys()["a"],
        ):
            params.zero_grad()
            use(params).sum().backward()
            found.append(plain(params["a"].grad))
    return found


@each_case("what", ["losses", "gradient", "no leaf", "vector", "missing", "no tensordict"])
@compared
def test_backward_of_tensordicts(lib, what):
    x = lib.nn.Parameter(lib.array([1.0, 2.0, 3.0]))
    with lib.enable_grad():
        losses = lib.TensorDict({"actor": x.sum(), "critic": {"value": (x * x).sum()}, "steps": 3}, [])
        if what == "losses":
            losses.backward()
        elif what == "gradient":
            weights = {"actor": lib.array(0.5), "critic": {"value": lib.array(2.0)}}
            losses.backward(lib.TensorDict(weights, []))
        elif what == "no leaf":
            lib.TensorDict({"a": lib.array([1.0])}, []).backward()
        elif what == "vector":
            lib.TensorDict({"a": x * 2}, []).backward()
        elif what == "missing":
            losses.backward(lib.TensorDict({"actor": lib.array(0.5)}, []))
        else:
            losses.backward(lib.array(1.0))
    return x.grad


@compared
def test_detach(lib):
    x = lib.nn.Parameter(lib.array([1.0, 2.0]))
    with lib.enable_grad():
        td = lib.TensorDict({"a": x * 2, "b": {"c": x + 1}}, [])
        found = [td.requires_grad, td.detach().requires_grad, td.data.requires_grad]
        td["a"].sum().backward(retain_graph=True)
        found += [td.detach_() is td, td.requires_grad]
    return [*found, td, x.grad, x.detach().requires_grad if lib is THEIRS else False]


# -- ensembles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
@compared
def test_from_modules(lib, lazy):
    """The examples of `TensorDict.from_modules`."""
    empty = lib.nn.Linear(3, 4, device="meta")
    modules = [fill(lib.nn.Linear(3, 4), i) for i in range(2)]
    params = lib.TensorDict.from_modules(*modules, lazy_stack=lazy)

    def exec_module(params, x):
        with params.to_module(empty):
            return empty(x)

    with lib.enable_grad():
        y = lib.vmap(exec_module, (0, None))(params, lib.array(X[0]))
        (y * lib.array(np.arange(8).reshape(2, 4))).sum().backward()
    own = None if lazy else params["weight"].grad
    return y, own, [module.weight.grad for module in modules], [module.bias.grad for module in modules]


@compared
def test_ensemble_module(lib):
    module = lib.tdnn.TensorDictModule(lib.nn.Linear(3, 4), in_keys=["x"], out_keys=["y"])
    ensemble = lib.tdnn.EnsembleModule(module, num_copies=3)
    fill(ensemble.params_td)
    with lib.enable_grad():
        out = ensemble(lib.TensorDict({"x": lib.array(X)}, [5]))
        (out["y"] * lib.array(np.arange(60).reshape(3, 5, 4))).sum().backward()
    return out["y"], ensemble.params_td.grad


@compared
def test_target_networks(lib):
    """Parameters of a copy, without gradients, and a step towards those that learn."""
    module = net(lib)
    params = lib.TensorDict.from_module(module)
    target = params.data.clone()
    with lib.enable_grad():
        with lib.no_grad(), target.to_module(module):
            goal = module(lib.array(X))
        ((module(lib.array(X)) * 2 - goal) ** 2).mean().backward()
    with lib.no_grad():
        for parameter in module.parameters():
            parameter.data -= 0.1 * parameter.grad
        target.lerp_(params.data, 0.5)
    return grads(module), target, [p.requires_grad for p in module.parameters()]


@compared
def test_a_policy_learns(lib):
    """A probabilistic module: the gradient of log-probs of given actions."""
    base = fill(lib.nn.Linear(3, 4))
    extract = lib.tdnn.NormalParamExtractor()
    policy = lib.tdnn.ProbabilisticTensorDictSequential(
        lib.tdnn.TensorDictModule(lib.nn.Sequential(base, extract), in_keys=["x"], out_keys=["loc", "scale"]),
        lib.tdnn.ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=lite.nn.distributions.Normal if lib is OURS else torch.distributions.Normal,
        ),
    )
    td = lib.TensorDict({"x": lib.array(X), "action": lib.array(X[:, :2])}, [5])
    with lib.enable_grad():
        log_prob = policy.get_dist(td).log_prob(td["action"])
        (log_prob * lib.array(X[:, :2])).sum().backward()
    return log_prob, grads(base)


@compared
def test_lazy_layers(lib):
    module = lib.nn.Sequential(lib.nn.LazyLinear(4), lib.nn.Tanh(), lib.nn.LazyLinear(1))
    with lib.enable_grad():
        module(lib.array(X))
        fill(module)
        module(lib.array(X)).sum().backward()
    return grads(module)


@compared
def test_shared_parameters(lib):
    shared = fill(lib.nn.Linear(3, 3))
    module = lib.nn.Sequential(shared, lib.nn.Tanh(), shared)
    count = []
    shared.weight.register_hook(lambda g: count.append(plain(g)))
    with lib.enable_grad():
        module(lib.array(X)).sum().backward()
    return count, shared.weight.grad
