"""What a deal means for everybody's images: who trains with whom, and whether the samples are there."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.training import Experiment, Images, Training
from fedpact.training.run import images_for, plan_training

pytest.importorskip("jax")

TRAINING = Training(rounds=1, batch_size=8, hidden=(9, 5))
FEDERATION = fp.Federation(
    [[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.1, 0.6, 1.0]],
    costs=[0.02, 0.03, 0.025],
    caps=[20.0, 18.0, 22.0],
    payoff=fp.PowerLaw(beta=0.3),
    names=["North", "South", "West"],
)


# Samples


@pytest.mark.parametrize("share", [0.01, 0.2, 0.25, 0.5, 0.9])
def test_the_advice_is_the_fewest_images(share: float) -> None:
    for samples in (1, 2, 3, 7, 33, 100, 401, 10_000):
        enough = images_for(samples, share)
        assert enough - round(share * enough) >= samples
        fewer = enough - 1
        assert fewer - round(share * fewer) < samples


def test_following_the_advice_helps(images: Images) -> None:
    federation = FEDERATION.replace(caps=1000.0)

    def check(contributions: list[float], samples: int) -> None:
        experiment = Experiment(images, samples=samples, training=TRAINING, names=federation.names)
        deal = fp.Deal(
            mechanism="by hand", agents=federation.names, contributions=np.array(contributions), payments=np.zeros(3)
        )
        plan_training(deal, federation, experiment)

    alone = fp.Standalone().solve(federation).contributions
    assert alone.max() < 24
    with pytest.raises(fp.InvalidInput, match=r'member "West" agreed to 41 samples but has 24 .*\(samples=51, '):
        check([30, 0, 41], 30)
    check([30, 0, 41], 51)
    with pytest.raises(fp.InvalidInput, match=r'"North" would use, alone, 7 samples but has 5'):
        check([1, 1, 1], 6)
    with pytest.raises(fp.InvalidInput, match="of which there are 360 in all"):
        check([1000, 1, 1], 30)
