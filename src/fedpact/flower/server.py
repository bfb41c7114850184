"""The ServerApp of a coordinator: negotiate, have it signed, train, measure, settle, and keep the record.

Each phase that is completed is one entry of the ledger, and the ledger alone says where a run stands: a server that is
started again on the same folder goes on after the last completed phase. A negotiation goes on in the middle, from its
transcript. Nodes forget between runs, so what they have signed is put to them again; they check it anew.

Members' public keys are fixed when they first answer. Everybody signs one document of the deal, and is then shown
everybody's signature; what is delivered, measured and paid is signed too (`fedpact.deals.signatures`). What is
delivered is paid for, at the prices agreed; where a deal names no prices, a member that delivers less than it agreed to
is lost.

A member that is lost before training is over takes its data with it: the deal is void, and those who are left negotiate
another. A member that refuses to sign, or finds that others have signed another deal, ends the run: the same deal would
be refused again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from fedpact.deals import Ledger
from fedpact.deals.ledger import AGREED, SETTLED, TRAINED
from fedpact.deals.signatures import stated_keys
from fedpact.flower.agreement import agreed_deal
from fedpact.flower.channel import roll_call
from fedpact.flower.entries import Lost
from fedpact.flower.learner import Model
from fedpact.flower.settings import AppSettings
from fedpact.flower.signed_run import SignedRun, begin_run
from fedpact.flower.strategy import UnderDeal
from fedpact.utils.errors import FedpactError, InvalidInput

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that `flwr run --stream` and `flwr log` show it

LEDGER = "ledger.jsonl"
PATIENCE = 60.0  #: seconds: a server outlives its SuperLink by some, and a run that is started again waits for it
MIN_AGENTS = 2  #: with fewer there is nothing to agree on


def server_app(
    initial: Callable[[Context], Model], *, strategy: Callable[[Context], Strategy] | None = None
) -> ServerApp:
    """The app of a coordinator.

    Parameters
    ----------
    initial
        Makes the model that training starts from.
    strategy
        Makes the strategy to train with, which must take all members; federated averaging if not given.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        conduct(
            grid,
            AppSettings.of(context.run_config),
            initial=lambda: initial(context),
            strategy=(lambda: strategy(context)) if strategy is not None else federated_averaging,
        )

    return app


def conduct(
    grid: Grid, settings: AppSettings, *, initial: Callable[[], Model], strategy: Callable[[], Strategy]
) -> None:
    """Take a run from where its ledger stands to its end.

    Raises
    ------
    InvalidInput
        If the ledger is of another run, or was changed.
    FedpactError
        If the run cannot end in a deal that everybody signs and keeps; the reason is in the ledger.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    with Ledger(settings.folder / LEDGER, patience=PATIENCE) as ledger:
        begin_run(ledger, settings.header())
        if ledger.last(SETTLED) is not None:
            logger.info("this run is over; its record is in %s", settings.folder)
            return
        _Run(grid, settings, ledger, initial, strategy).to_the_end()


class _Run(SignedRun):
    """A run under way: members negotiate the deal that they sign."""

    def __init__(
        self,
        grid: Grid,
        settings: AppSettings,
        ledger: Ledger,
        initial: Callable[[], Model],
        strategy: Callable[[], Strategy],
    ) -> None:
        self.settings, self.initial, self.strategy = settings, initial, strategy
        present = roll_call(
            grid,
            settings.num_agents,
            run=ledger.entries[0].hash,
            timeout=settings.timeout,
            patience=settings.patience,
            seats=settings.seats,
            keys=stated_keys(ledger.entries),
        )
        super().__init__(grid, ledger, present, timeout=settings.timeout)

    def to_the_end(self) -> None:
        """Every phase that is still to be done; without those who are lost, if need be more than once."""
        while True:
            try:
                self._agree()
                self.sign()
                self._train()
                break
            except Lost as lost:
                self.fail("lost", str(lost), lost.reasons, **lost.signed)
                self.present = self.present.without(list(lost.reasons))
                if len(self.present.nodes) < MIN_AGENTS:
                    raise
                logger.warning("%s; the others negotiate another deal", lost)
        self.verify()
        self.measure()
        self.settle()

    # Phases

    def _agree(self) -> None:
        if self.entry(AGREED) is None:
            try:
                content = agreed_deal(self.grid, self.present, self.settings, self._attempt)
                _check_company(content["deal"])
            except FedpactError as error:
                self.fail("agree", str(error), {})
                raise
            self.note(AGREED, content)

    def _train(self) -> None:
        if self.entry(TRAINED) is not None:
            return
        if not any(self.samples().values()):
            first = self._first_model()
            self.keep_training(dict.fromkeys(self.samples(), first), {name: [] for name in self.samples()}, {})
            return
        under = UnderDeal(
            self.strategy(),
            self.deal(),
            samples_per_unit=self.settings.samples_per_unit,
            verify_subsets=self.settings.verify_subsets,
            wants=self.wants,
        )
        under.train_signed(self, self._first_model(), self.settings.rounds, timeout=self.settings.timeout)

    def _first_model(self) -> ArrayRecord:
        return ArrayRecord([np.asarray(array) for array in self.initial()])

    def _file(self, kind: str) -> Path:
        return self.settings.folder / f"{kind}-{self._attempt}.npz"


def _check_company(deal: Mapping[str, Any]) -> None:
    out = "; ".join(f'"{name}": {reason}' for name, reason in deal["excluded"].items())
    if len(deal["agents"]) - len(deal["excluded"]) < MIN_AGENTS:
        raise InvalidInput(f"fewer than {MIN_AGENTS} members are left at the table: {out}")


def federated_averaging() -> Strategy:
    """Federated averaging over all members; what models come to is measured once, at the end."""
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1)
