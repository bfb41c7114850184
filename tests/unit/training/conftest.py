from __future__ import annotations

import pytest

from blobs import blobs
from fedpact.training import Experiment, Images, Training, mnist

SMALL = Training(rounds=4, batch_size=8, hidden=(9, 5))


@pytest.fixture(scope="session")
def images() -> Images:
    return blobs()


@pytest.fixture(scope="session")
def experiment(images: Images) -> Experiment:
    return Experiment(images, samples=[40, 30, 35], training=SMALL)


@pytest.fixture(scope="session")
def digits() -> Images:
    """MNIST, read once."""
    return mnist()
