"""The table: which functions that vmap knows a graph knows, too."""

from __future__ import annotations

import numpy as np

import lite._transforms.graphs.trace
import lite._transforms.vmap.dispatch  # noqa: F401 - both tables are filled
from lite._transforms.graphs.rules import RULES
from lite._transforms.graphs.ufuncs import SUPPORTED
from lite._transforms.registry import name_of
from lite._transforms.vmap.rules import RULES as MAPPED

# Functions without an operator in ONNX, or whose result has a shape that depends on numbers, or that make
# files and texts. Called while a module is traced they raise, and name themselves.
WITHOUT = {
    "": """
    angle array2string array_equal array_repr array_str atleast_3d block choose convolve copyto
    corrcoef correlate cov cross cumprod cumulative_prod delete diag diag_indices_from diagflat
    ediff1d fill_diagonal geomspace gradient i0 imag insert interp iscomplex isreal kron lexsort
    lib.stride_tricks.sliding_window_view linspace logspace may_share_memory median meshgrid
    nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile nanquantile
    nanstd nanvar percentile put put_along_axis putmask quantile resize save savetxt savez
    savez_compressed shares_memory sinc trapezoid tril_indices_from triu_indices_from unwrap vander
    """,
    "fft.": """
    fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
    rfftn
    """,
    "linalg.": """
    cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power matrix_rank
    pinv qr slogdet solve tensorinv tensorsolve svd svdvals
    """,
}


def test_what_vmap_knows_is_known_or_listed() -> None:
    missing = {
        name_of(function) for function in MAPPED if function not in RULES and function not in SUPPORTED
    }
    listed = {f"numpy.{package}{name}" for package, names in WITHOUT.items() for name in names.split()}
    np.testing.assert_equal(sorted(missing), sorted(listed))
