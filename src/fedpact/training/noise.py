"""What spoils an agent's contribution: wrong labels, noisy pixels, updates made private.

Noise spoils what an agent contributes. Test sets stay as they are, labels and pixels, so that accuracies measure what
the others' data is worth on clean images. Every strength is a number or one per agent; where agents have several lots,
one per lot, but for updates, which are an agent's. A stronger noise spoils the same samples and more: two strengths are
compared on common random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import NON_NEGATIVE, FloatArray, checked_numbers, first_where, non_negative
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


@dataclass(frozen=True, eq=False)
class PrivateUpdates(Noise):
    """Each update is clipped and noise is added before it leaves the agent, as in differentially private averaging.

    An update is what one round of local training adds to the model, all weights as one vector. It is shortened to norm
    `clip` if it is longer (infinity leaves updates as they are and allows no noise), then Gaussian noise of standard
    deviation `multiplier * clip` is added to every entry. What privacy this gives over all rounds is for an accountant
    to say, such as those of Opacus or dp-accounting.
    """

    rules = {"clip": (lambda x: x > 0, "positive"), "multiplier": (non_negative, NON_NEGATIVE)}  # noqa: RUF012

    clip: Any
    multiplier: Any = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip.ndim and self.multiplier.ndim and self.clip.size != self.multiplier.size:
            raise InvalidInput(
                f"PrivateUpdates.clip and PrivateUpdates.multiplier must have one number per member each: "
                f"{self.clip.size} and {self.multiplier.size} given"
            )
        boundless = first_where(np.atleast_1d(np.isinf(self.clip) & (self.multiplier > 0)))
        if boundless is not None:
            raise InvalidInput(
                f"PrivateUpdates.clip must be finite where there is noise, got inf for entry {boundless}: "
                f"noise is measured in units of it"
            )


NOISES = {kind.__name__: kind for kind in (LabelNoise, PixelNoise, PrivateUpdates)}


def checked_noise(given: Any, names: Sequence[str], lots: Sequence[str]) -> Strengths:
    """Strengths of every kind of noise given: per lot where samples are spoiled, per agent where updates are."""
    listed = [given] if isinstance(given, Noise) else given
    if not isinstance(listed, Sequence) or not all(type(noise) in NOISES.values() for noise in listed):
        raise InvalidInput(
            f"noise must be a list of LabelNoise, PixelNoise and PrivateUpdates, got {short_repr(given)}"
        )
    strengths: Strengths = {}
    for noise in listed:
        kind = type(noise).__name__
        if kind in strengths:
            raise InvalidInput(f"noise names {kind} twice; give it once, with one number per member")
        owners = names if isinstance(noise, PrivateUpdates) else lots
        strengths[kind] = {
            name: np.broadcast_to(
                checked_numbers(f"{kind}.{name}", numbers, np.isreal, "a number", names=owners), len(owners)
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
