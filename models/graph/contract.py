"""The contract beside a graph, as `lite.nn.Module.to_onnx` writes it, compared with the graph itself."""

from __future__ import annotations

from collections.abc import Sequence

from lite.models.graph.session import NodeArg, SharedSession
from lite.models.graph.tensors import ELEMENT_TYPES
from lite.nn._export.contract import Contract, ContractTensor, contract_path, read_contract


def contract_of(session: SharedSession) -> Contract | None:
    """The contract of a graph that was opened by its path; None if there is none.

    Raises:
        ValueError: the file is not a contract, or not that of this graph.
    """
    opened = session.get()
    if not contract_path(session.path).exists():
        return None
    about = opened.get_modelmeta().custom_metadata_map if hasattr(opened, "get_modelmeta") else None
    contract = read_contract(session.path, about)
    if contract is not None:
        _compare(session, "inputs", contract.inputs, opened.get_inputs())
        _compare(session, "outputs", contract.outputs, opened.get_outputs())
    return contract


def _compare(
    session: SharedSession, where: str, agreed: Sequence[ContractTensor], found: Sequence[NodeArg]
) -> None:
    path = contract_path(session.path)
    names = [tensor.name for tensor in agreed], [arg.name for arg in found]
    if names[0] != names[1]:
        raise ValueError(f"{path}: the {where} are {names[0]}, those of the graph {names[1]}.")
    for tensor, arg in zip(agreed, found, strict=True):
        known = ELEMENT_TYPES.get(arg.type)
        sizes = [size for size in tensor.shape if isinstance(size, int)]
        have = [size for size in arg.shape if isinstance(size, int)]
        if (
            known is None
            or known.name != tensor.dtype
            or len(tensor.shape) != len(arg.shape)
            or sizes != have
        ):
            raise ValueError(
                f"{path}: {tensor.name!r} is {tensor.dtype}{list(tensor.shape)}, in the graph "
                f"{known.name if known else arg.type}{list(arg.shape)}."
            )
