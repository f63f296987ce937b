"""The fixture of arrays that NumPy wrote, in every version of the format, as hexadecimal digits."""

import io
from typing import Any

import numpy
from numpy.lib import format as npy_format

VERSIONS = [(1, 0), (2, 0), (3, 0)]
TYPES = ["<f2", "<f4", "<f8"]


def written(array: numpy.ndarray, version: tuple[int, int] | None = None) -> str:
    file = io.BytesIO()
    npy_format.write_array(file, array, version)
    return file.getvalue().hex()


def counting(*shape: int) -> numpy.ndarray:
    return numpy.arange(numpy.prod(shape)).reshape(shape) / 4 - 1


def make() -> dict[str, Any]:
    good = [
        {
            "type": name,
            "shape": list(array.shape),
            "values": array.tolist(),
            "file": written(array.astype(name), version),
        }
        for name in TYPES
        for version in VERSIONS
        for array in [counting(3, 4), counting(1, 5), counting(5, 1)]
    ]
    matrix = counting(3, 4).astype("<f4")
    refused = {
        "column after column": written(numpy.asfortranarray(matrix)),
        "big-endian": written(matrix.astype(">f4")),
        "whole numbers": written(matrix.astype("<i4")),
        "complex": written(matrix.astype("<c8")),
        "one dimension": written(matrix.ravel()),
        "three dimensions": written(matrix.reshape(3, 2, 2)),
        "a scalar": written(matrix[0, 0]),
        "records": written(numpy.zeros((2, 2), [("a", "<f4"), ("b", "<f4")])),
        "names beyond ASCII": written(numpy.zeros((2, 2), [("\u00e9", "<f4")]), (3, 0)),
        "objects": written(numpy.array([[None, 1]], dtype=object)),
    }
    return {"good": good, "refused": refused}
