"""What spoils an agent's contribution: wrong labels, noisy pixels.

Noise spoils what an agent contributes. Test sets stay as they are, labels and pixels, so that accuracies measure what
the others' data is worth on clean images. Every strength is a number or one per agent; where agents have several lots,
one per lot. A stronger noise spoils the same samples and more: two strengths are compared on common random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput, short_repr

Strengths = dict[str, dict[str, FloatArray]]  # by the names of kinds of noise and of their fields


class Noise:
    """A kind of noise; its fields are its strengths, which `rules` are for."""

    rules: ClassVar[dict[str, tuple[Callable[[Any], Any], str]]]

    def __post_init__(self) -> None:
        for name, (accepts, rule) in self.rules.items():
            label = f"{type(self).__name__}.{name}"
            object.__setattr__(self, name, checked_numbers(label, getattr(self, name), accepts, rule))


@dataclass(frozen=True, eq=False)
class LabelNoise(Noise):
    """That share of an agent's training labels, from 0 to 1, is replaced by other classes, each as likely."""

    rules = {"share": (lambda x: (x >= 0) & (x <= 1), "a share from 0 to 1")}  # noqa: RUF012

    share: Any


@dataclass(frozen=True, eq=False)
class PixelNoise(Noise):
    """Gaussian noise of this deviation on every pixel of an agent's training images, then clipped to 0 to 1."""

    rules = {"deviation": (non_negative, NON_NEGATIVE)}  # noqa: RUF012

    deviation: Any


NOISES = {kind.__name__: kind for kind in (LabelNoise, PixelNoise)}


def checked_noise(given: Any, lots: Sequence[str]) -> Strengths:
    """Strengths of every kind of noise given, per lot."""
    listed = [given] if isinstance(given, Noise) else given
    if not isinstance(listed, Sequence) or not all(type(noise) in NOISES.values() for noise in listed):
        raise InvalidInput(f"noise must be a list of LabelNoise and PixelNoise, got {short_repr(given)}")
    strengths: Strengths = {}
    for noise in listed:
        kind = type(noise).__name__
        if kind in strengths:
            raise InvalidInput(f"noise names {kind} twice; give it once, with one number per member")
        strengths[kind] = {
            name: np.broadcast_to(
                checked_numbers(f"{kind}.{name}", numbers, np.isreal, "a number", names=lots), len(lots)
            )
            for name, numbers in vars(noise).items()
        }
    return strengths


def spoil_labels(
    labels: NDArray[np.int32], share: float, n_classes: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Labels of which a share is wrong; a larger share changes the same ones, to the same classes, and more."""
    order = rng.permutation(len(labels))
    shifts = rng.integers(1, n_classes, len(labels))
    wrong = order[: round(share * len(labels))]
    spoiled = labels.copy()
    spoiled[wrong] = (labels[wrong] + shifts[wrong]) % n_classes
    return spoiled


def spoil_pixels(pixels: NDArray[np.float32], deviation: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Pixels with Gaussian noise, clipped to 0 to 1."""
    noise = rng.standard_normal(pixels.shape, dtype=np.float32)
    return np.clip(pixels + np.float32(deviation) * noise, 0.0, 1.0)
