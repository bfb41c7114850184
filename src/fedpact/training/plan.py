"""Everything needed to repeat a run: the scenario, the deal, the images and how to train, as plain data and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.deals import Deal
from fedpact.deals.deal import TRAINS_ALONE
from fedpact.deals.deal_file import deal_from_record, deal_record
from fedpact.federation import Federation
from fedpact.scenario import Scenario, parse_scenario, scenario_to_dict
from fedpact.training.data import Images, mnist
from fedpact.training.experiment import Experiment
from fedpact.training.noise import LabelNoise, Noise, PixelNoise, PrivateUpdates
from fedpact.training.partitions import Dirichlet, Even, Partition
from fedpact.training.run import Progress, Run, train_under
from fedpact.training.settings import Training
from fedpact.training.trainable import check_trainable, deal_for_everybody
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

PARTITIONS: Mapping[str, type[Partition]] = {"even": Even, "dirichlet": Dirichlet}
NOISES: Mapping[str, type[Noise]] = {"labels": LabelNoise, "pixels": PixelNoise, "private": PrivateUpdates}


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A run that can be trained any number of times.

    Attributes
    ----------
    scenario, deal
        Who, and what was agreed.
    data
        Where MNIST comes from: "embedded", "openml" or "huggingface".
    samples, test_share, partition, noise, training, seed
        As `Experiment` takes them; samples and strengths of noise have one number per agent (lot).
    floors, ceilings
        As `train_under` takes them, one number per agent.
    """

    scenario: Scenario
    deal: Deal
    data: str
    samples: FloatArray
    test_share: float
    partition: Partition
    noise: Sequence[Noise]
    training: Training
    seed: int
    floors: FloatArray
    ceilings: FloatArray

    @cached_property
    def images(self) -> Images:
        """What is dealt to the agents."""
        return mnist(self.data)

    @cached_property
    def experiment(self) -> Experiment:
        """The images dealt to the agents."""
        return Experiment(
            self.images,
            n_agents=self.scenario.federation.n_agents,
            samples=self.samples,
            test_share=self.test_share,
            partition=self.partition,
            noise=list(self.noise),
            training=self.training,
            seed=self.seed,
            names=self.scenario.federation.names,
            **_owned(self.scenario.federation),
        )

    def check(self) -> None:
        """Raise `InvalidInput` if there is something that cannot be trained, without training anything."""
        federation = self.scenario.federation
        check_trainable(deal_for_everybody(self.deal, federation), federation, self.experiment)

    def run(self, *, progress: Progress | None = None, checkpoint: Path | None = None) -> Run:
        """Train as planned."""
        return train_under(
            self.deal,
            self.scenario.federation,
            self.experiment,
            floors=self.floors,
            ceilings=self.ceilings,
            progress=progress,
            checkpoint=checkpoint,
        )

    def record(self) -> dict[str, Any]:
        """The plan as plain data, which `plan_of` reads."""
        federation = self.scenario.federation
        partition = {name: kind for name, kind in PARTITIONS.items() if isinstance(self.partition, kind)}
        kinds = {kind: name for name, kind in NOISES.items()}
        plain_scenario = _plain(self.scenario)
        plain: dict[str, Any] = jsonable(
            {
                "scenario": scenario_to_dict(plain_scenario),
                "deal": deal_record(replace(self.deal, scenario=plain_scenario.federation.fingerprint)),
                "experiment": {
                    "data": self.data,
                    "samples": np.asarray(self.samples).astype(np.int64),
                    "test_share": self.test_share,
                    "partition": {"kind": next(iter(partition))} | asdict(self.partition),  # type: ignore[call-overload]
                    "noise": {
                        kinds[type(noise)]: noise.per_agent(
                            federation.names if isinstance(noise, PrivateUpdates) else federation.lot_labels
                        )
                        for noise in self.noise
                    },
                    "training": asdict(self.training),
                    "seed": self.seed,
                },
                "floors": self.floors,
                "ceilings": self.ceilings,
                "fingerprint": self.experiment.fingerprint,
            }
        )
        return plain


def plan_of(record: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.record` wrote down.

    Raises
    ------
    InvalidInput
        If the record is not one of those.
    """
    try:
        scenario = parse_scenario(record["scenario"], where="scenario", folder=Path())
        deal, experiment = record["deal"], record["experiment"]
        partition = dict(experiment["partition"])
        kind = PARTITIONS[partition.pop("kind")]
        return Plan(
            scenario=scenario,
            deal=deal_from_record(_with_excluded(deal)),
            data=experiment["data"],
            samples=np.array(experiment["samples"]),
            test_share=experiment["test_share"],
            partition=kind(**partition),
            noise=[NOISES[name](**_strengths(given)) for name, given in experiment["noise"].items()],
            training=Training(**experiment["training"]),
            seed=experiment["seed"],
            floors=read_only_copy(record["floors"]),
            ceilings=read_only_copy(record["ceilings"]),
        )
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"these are not the settings of a run: {type(error).__name__} {short_repr(str(error))}"
        ) from error


def versions() -> dict[str, str]:
    """What a run depends on beside its plan."""
    return {
        "fedpact": version("fedpact"),
        "python": sys.version.split()[0],
        "jax": version("jax"),
        "numpy": version("numpy"),
    }


def _owned(federation: Federation) -> dict[str, Any]:
    """Whose lots there are, as an experiment takes it."""
    if not federation.has_lots:
        return {}
    return {"lot_owners": federation.lot_owners, "lot_names": federation.lot_names}


def _plain(scenario: Scenario) -> Scenario:
    """The scenario with dense weights and without its uncertainty, so that it needs no files beside it."""
    federation = scenario.federation
    if federation.is_sparse:
        federation = federation.replace(weights=federation.dense_weights())
    return replace(scenario, federation=federation, uncertainty=None)


def _with_excluded(deal: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of a deal; runs of version 0.1 name the members in place of those who are out."""
    if "members" not in deal:
        return deal
    return {**deal, "excluded": {name: TRAINS_ALONE for name in deal["agents"] if name not in deal["members"]}}


def _strengths(given: Mapping[str, Sequence[float | str]]) -> dict[str, list[float]]:
    return {
        name: [math.inf if entry == "inf" else float(entry) for entry in entries] for name, entries in given.items()
    }
