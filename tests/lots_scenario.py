"""Three members with four lots and four tasks, small enough for every test."""

from __future__ import annotations

import fedpact as fp

WEIGHTS = [[1.0, 0.3, 0.5, 0.2], [0.6, 0.01, 1.0, 0.3], [0.4, 0.02, 0.4, 1.0], [0.1, 0.9, 0.0, 0.2]]
FEDERATION = fp.Federation(
    WEIGHTS,
    costs=[0.01, 0.08, 0.012, 0.02],
    caps=[3.0, 20.0, 30.0, 10.0],
    payoff=fp.PowerLaw(0.4),
    values=[1.0, 1.0, 1.0, 0.3],
    names=["North", "South", "East"],
    lot_owners=[0, 0, 1, 2],
    task_owners=[0, 1, 2, 2],
    lot_names=["clean", "noisy", "all", "all"],
    task_names=["patients", "patients", "patients", "rare"],
)
