"""The paper's network: fully connected layers with ReLU between them and log-softmax at the end.

Weights start as PyTorch's do: uniform in plus or minus one over the square root of the number of inputs. They are drawn
with NumPy, so a seed means the same in every version of JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Weights = tuple[tuple[Any, Any], ...]  # arrays of NumPy or JAX


def initial_weights(sizes: Sequence[int], rng: np.random.Generator) -> Weights:
    """A matrix (inputs, outputs) and an offset per layer, `sizes` being those of the layers from pixels to classes."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        bound = inputs**-0.5
        matrix = rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        offset = rng.uniform(-bound, bound, outputs).astype(np.float32)
        layers.append((matrix, offset))
    return tuple(layers)


def log_probabilities(weights: Weights, pixels: Any, fixed: Any = 0.0) -> jax.Array:
    """Of every class, for every row of pixels; `fixed` is what pixels not among these add to the first layer."""
    (matrix, offset), *later = weights
    found = pixels @ matrix + offset + fixed
    for matrix, offset in later:
        found = jax.nn.relu(found) @ matrix + offset
    return jax.nn.log_softmax(found)


def losses(weights: Weights, pixels: Any, labels: Any, fixed: Any = 0.0) -> tuple[jax.Array, jax.Array]:
    """Of every image: minus the log-probability of its label, and whether that is found likeliest."""
    found = log_probabilities(weights, pixels, fixed)
    return -jnp.take_along_axis(found, labels[:, None], axis=1)[:, 0], found.argmax(axis=1) == labels
