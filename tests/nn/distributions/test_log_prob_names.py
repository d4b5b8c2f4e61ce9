"""Under which keys log-probs go."""

from helpers.cases import raises

from lite.nn import composite_lp_aggregate, set_composite_lp_aggregate
from lite.nn.distributions.log_prob_names import add_suffix, log_prob_names


def test_suffixes() -> None:
    assert add_suffix("x", "_log_prob") == "x_log_prob"
    assert add_suffix(("a", ("b", "x")), "_log_prob") == ("a", "b", "x_log_prob")


def test_one_for_each_sample() -> None:
    assert log_prob_names(["x", ("n", "y")]) == ["x_log_prob", ("n", "y_log_prob")]
    assert log_prob_names(["x"], key="lp") == ["lp"]
    raises(RuntimeError, "for 2 out_keys: pass log_prob_keys", lambda: log_prob_names(["x", "y"], key="lp"))
    raises(ValueError, "one for each", lambda: log_prob_names(["x", "y"], keys=["lp"]))


def test_their_sum() -> None:
    with set_composite_lp_aggregate(True):
        assert composite_lp_aggregate()
        assert log_prob_names(["x", "y"]) == ["sample_log_prob"]
        raises(RuntimeError, "pass log_prob_key", lambda: log_prob_names(["x"], keys=["lp"]))
    assert not composite_lp_aggregate()
    with set_composite_lp_aggregate():
        assert composite_lp_aggregate()
