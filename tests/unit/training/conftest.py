from __future__ import annotations

from pathlib import Path

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
def digits(request: pytest.FixtureRequest) -> Images:
    """MNIST, kept between runs with what else pytest keeps."""
    assert request.config.cache is not None
    folder: Path = request.config.cache.mkdir("fedpact-images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        return mnist()
