"""Coefficients of the formulas of GELU, for compiled code and for NumPy; Numba is not imported here.

Both are x / (1 + exp(x p(x²))) with a polynomial p, which keeps the digits of small results.
"""

import math

# The log odds of a standard normal number being above x, over x, for x² up to 30: fitted by least squares,
# weighted for the smallest largest error of GELU, 7e-8.
EXACT = (
    -3.611130317856536e-09, 2.668886910911786e-07, -7.938158600899255e-06, 1.1047991667646493e-04,
    6.626122114129985e-05, -7.266856862963705e-02, -1.5957684315931355,
)  # fmt: skip
END = 30.0

# 2 √(2/π) (x + 0.044715 x³), the same over x: a formula with exp is one with tanh of half of that.
BY_TANH = (-2 * math.sqrt(2 / math.pi) * 0.044715, -2 * math.sqrt(2 / math.pi))
