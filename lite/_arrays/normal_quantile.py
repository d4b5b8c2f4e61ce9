"""The inverse of the standard normal distribution function."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import as_array

# Quotients of polynomials, highest power first, exact to about 1e-16: in 0.180625 - q² for the middle, and in
# r = sqrt(-log(tail)) less 1.6 or 5 for the tails (Wichura 1988, algorithm AS 241, Applied Statistics 37).
_MIDDLE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852545925,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_TAIL = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)


def _quotient(pair: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    return np.polyval(pair[0], x) / np.polyval(pair[1], x)


def normal_quantile(p: Any) -> Any:
    """The number below which a standard normal one lies with probability `p`; NaN outside [0, 1]."""
    wide = as_array(p).astype(np.float64, copy=False)
    q = wide - 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.sqrt(-np.log(np.minimum(wide, 1.0 - wide)))
        near = np.abs(q) <= 0.425
        middle = q * _quotient(_MIDDLE, 0.180625 - np.where(near, q * q, 0.0))
        tail = np.where(
            r <= 5.0,
            _quotient(_TAIL, np.minimum(r, 5.0) - 1.6),
            _quotient(_FAR_TAIL, np.minimum(r, 27.0) - 5.0),
        )
        tail = np.where(np.isinf(r), np.inf, tail)
        out = np.where(near, middle, np.copysign(tail, q))
    return np.where((wide >= 0) & (wide <= 1), out, np.nan).astype(p.dtype, copy=False)
