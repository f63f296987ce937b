"""Fits the polynomials of kernels/simd/simd_math.h; prints coefficients and largest relative errors.

Needs numpy (the oracle's environment has it): .deps/oracle/bin/python tools/fit_vector_math.py
"""

import math

import numpy as np


def minimax(basis: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients that make basis @ c close to target in the largest relative error (Lawson reweighting)."""
    rows = basis / target[:, None]
    weights = np.full(len(target), 1.0 / len(target))
    for _ in range(400):
        scale = np.sqrt(weights)[:, None]
        coefficients = np.linalg.lstsq(rows * scale, scale[:, 0], rcond=None)[0]
        error = np.abs(rows @ coefficients - 1.0)
        weights *= error / error.max() + 1e-6
        weights /= weights.sum()
    return coefficients, float(error.max())


def show(name: str, coefficients: np.ndarray, error: float) -> None:
    print(f"{name}: relative error {error:.1e}")
    for value in coefficients:
        print(f"  {float(np.float32(value))!r}f")


def main() -> None:
    # exp(z^2) erfc(z) as a polynomial in t = 1 / (1 + 0.3 z) without a constant term, for 0 <= z <= 10.
    z = np.concatenate([np.linspace(0, 3, 4000), np.linspace(3, 10, 3000)])
    t = 1.0 / (1.0 + 0.3 * z)
    scaled_erfc = np.array([math.exp(v * v) * math.erfc(v) for v in z])
    show("erfcx", *minimax(t[:, None] ** np.arange(1, 10), scaled_erfc))

    # 2^f for |f| <= 1/2.
    f = np.linspace(-0.5, 0.5, 8001)
    show("exp2", *minimax(f[:, None] ** np.arange(0, 7), np.exp2(f)))

    # ln(1 + f) = f - f^2 / 2 + f^3 p(f), for 1 + f between the roots of 1/2 and 2.
    f = np.linspace(math.sqrt(0.5) - 1.0, math.sqrt(2.0) - 1.0, 8000)
    rest = (np.log1p(f) - f + f * f / 2.0) / f**3
    show("log1p", *minimax(f[:, None] ** np.arange(0, 9), rest))


if __name__ == "__main__":
    main()
