"""Every example in the reference's docstrings runs on lite, with the same results, or is a row."""

from pathlib import Path

import pytest
from helpers.cases import each_case
from parity.documentation import examples, run_example
from torch.utils._pytree import SUPPORTED_NODES

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference

DIFFERENCES = Path(__file__).parents[2] / "lite" / "DIFFERENCES.md"
EXAMPLES = examples()

# Examples that need what lite leaves out or does otherwise, with the beginning of the row that says so.
ROWS = {
    **dict.fromkeys(
        (f"TensorDictBase.{name}" for name in ("min", "max", "cummin", "cummax")), "nested batch sizes longer"
    ),
    "TensorDictBase.quantile": "`sum(dim=None)`; `keepdim=True` alone; `quantile`",
    "TensorDictBase.attrs": "`td.attrs`, distributed",
    **dict.fromkeys(
        ("TensorDictBase.flatten_keys", "TensorDictBase.unflatten_keys"), "`td.attrs`, distributed"
    ),  # they quantise a module
    "TensorDictStore": "`td.attrs`, distributed",
    "nn.CudaGraphModule": "`td.attrs`, distributed",
    **dict.fromkeys(
        (
            "TensorDictBase.to",
            "nn.TensorDictModuleBase",
            "nn.TensorDictModuleBase.reset_parameters_recursive",
        ),
        "leaves and devices",
    ),
}


# Examples of which the reference itself runs nothing: they need files, packages or a GPU that are not there.
NOWHERE = {
    *(
        f"TensorDictBase.{name}"
        for name in ("device", "from_csv", "from_h5", "from_json", "from_parquet", "from_zarr")
    ),
    "PersistentTensorDict.from_h5",
    "PersistentTensorDict.from_zarr",
    "TensorDictStore.from_schema",
}


@pytest.fixture(autouse=True)
def registered():
    """The example of CudaGraphModule takes TensorDicts out of torch's trees for good."""
    before = dict(SUPPORTED_NODES)
    yield
    SUPPORTED_NODES.update(before)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in ROWS:
        with pytest.raises(AssertionError):
            run_example(EXAMPLES[name])
    else:
        assert bool(run_example(EXAMPLES[name])) == (name not in NOWHERE)


def test_that_examples_are_found_and_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) > 150
    assert ROWS.keys() | NOWHERE <= EXAMPLES.keys()
    assert run_example(EXAMPLES["TensorDictBase.squeeze"]) >= 4
    with pytest.raises(AssertionError):
        run_example(["td = TensorDict(a=torch.ones(3))", "type(td['a']).__name__ == 'Tensor'"])


@each_case("row", sorted(set(ROWS.values())))
def test_rows_are_documented(row):
    subjects = [line[2:] for line in DIFFERENCES.read_text().splitlines() if line.startswith("| ")]
    assert [subject for subject in subjects if subject.startswith(row)]
