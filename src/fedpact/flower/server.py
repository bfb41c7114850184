"""The ServerApp of a coordinator: negotiate, have it signed, train, measure, settle, and keep the record.

Phases and their entries are those of `fedpact.flower.run`. A negotiation that was interrupted goes on in the middle,
from its transcript. Where a member is lost, those who are left negotiate another deal.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from fedpact.deals import Deal, Ledger
from fedpact.deals.deal_file import deal_record
from fedpact.deals.ledger import SETTLED
from fedpact.deals.transcript import find_transcript, read_transcript
from fedpact.fitting.delivery import Calibration
from fedpact.flower.node import Model
from fedpact.flower.run import MIN_AGENTS, Lost, SignedRun, begin_run, logger
from fedpact.flower.settings import AppSettings
from fedpact.flower.strategy import UnderDeal
from fedpact.negotiation import coordinate
from fedpact.negotiation.coordinator import transcript_header
from fedpact.utils.errors import FedpactError, InvalidInput
from fedpact.utils.files import read_bytes
from fedpact.utils.jsonl import jsonable

LEDGER = "ledger.jsonl"
PATIENCE = 60.0  #: seconds: a server outlives its SuperLink by some, and a run that is started again waits for it
CONTRIBUTION_ROUNDING = 1e-9  # of the largest: what was said of contributions as near was said of the deal's


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
        made = (lambda: strategy(context)) if strategy is not None else federated_averaging
        conduct(grid, AppSettings.of(context.run_config), initial=lambda: initial(context), strategy=made)

    return app


def federated_averaging() -> Strategy:
    """Federated averaging over all members; what models come to is measured once, at the end."""
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1)


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
        run = SignedRun(grid, ledger, settings.agents, settings.timeout, settings.patience)

        def negotiate(_: Lost | None) -> dict[str, Any]:
            try:
                return agreed_deal(run, settings)
            except FedpactError as error:
                run.fail("agree", str(error), {})
                raise

        def train() -> None:
            first = ArrayRecord([np.asarray(array) for array in initial()])
            if not any(run.samples().values()):
                run.keep_training(dict.fromkeys(run.samples(), first), {})
                return
            options: dict[str, Any] = {"verify_subsets": settings.verify_subsets, "wants": run.wants}
            under = UnderDeal(strategy(), run.deal(), samples_per_unit=settings.samples_per_unit, **options)
            under.train(run, first, settings.rounds, settings.timeout)

        run.to_the_end(negotiate, train)


class FlowerChannel:
    """A channel (`fedpact.negotiation.Channel`) to agents on the nodes of a run."""

    def __init__(self, run: SignedRun) -> None:
        self.names: Sequence[str] = run.names
        self._run = run

    def ask(self, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        """Ask all at once; what comes back in time, errors included, by index."""
        by_name = {self.names[index]: question for index, question in questions.items()}
        heard, silent = self._run.ask("negotiate", by_name)
        broken = {name: {"number": by_name[name]["number"], "error": why} for name, why in silent.items()}
        return {self.names.index(name): said for name, said in {**heard, **broken}.items()}


def agreed_deal(run: SignedRun, settings: AppSettings) -> dict[str, Any]:
    """Negotiate with those who are there, from the transcript as far as it goes; what the ledger holds of it."""
    path, verification = settings.folder / f"negotiation-{run.attempt}.jsonl", settings.verification()
    rules: dict[str, Any] = {
        "mechanism": settings.mechanism,
        "protocol": settings.protocol,
        "title": settings.title,
        "scenario": settings.scenario or None,
        "consent": False,  # everybody is asked to sign
    }
    resume = _is_resumable(path, run.names, rules)
    deal = coordinate(FlowerChannel(run), transcript=path, resume=resume, **rules)
    if len(deal.members) < MIN_AGENTS:
        out = "; ".join(f'"{name}": {reason}' for name, reason in deal.excluded.items())
        raise InvalidInput(f"fewer than {MIN_AGENTS} members are left at the table: {out}")
    if deal.has_lots:
        raise InvalidInput(
            f"the deal is agreed and stands in {path}, but nodes sign and train under deals between members with one "
            f"lot of data each, and these have several; `fedpact settle SCENARIO {path}` pays it"
        )
    if verification is not None and verification["settles"]:
        Calibration.of_record(verification["calibration"]).check_settles(deal)
    with path.open("rb") as file:
        os.fsync(file.fileno())  # the ledger must not name what a power failure can take away
    digest, count = hashlib.sha256(read_bytes(path)).hexdigest(), read_transcript(path).count
    return {
        "deal": deal_record(deal),
        "utilities": _utilities(deal),
        "trace": [event for event in jsonable(deal.trace) if event.get("event") != "round"],
        "unseated": {str(node): reason for node, reason in run.unseated.items()},
        "transcript": {"file": path.name, "sha256": digest, "exchanges": count},
        **({} if verification is None else {"verification": verification}),
    }


def _is_resumable(path: Path, names: Sequence[str], rules: Mapping[str, Any]) -> bool:
    """Whether the transcript is of the same agents, by the same rules; nothing is built on anything else."""
    try:
        return find_transcript(path, transcript_header(names, **rules)) is not None
    except InvalidInput:  # interrupted before its first line was whole, or not ours
        return False


def _utilities(deal: Deal) -> dict[str, float]:
    """By name, of those who spoke of the deal's own contributions: payoff less cost as they said, and the payment."""
    near = CONTRIBUTION_ROUNDING * float(deal.contributions.max(initial=0.0))
    for event in reversed(deal.trace):
        if event["event"] == "round" and np.abs(event["contributions"] - deal.contributions).max() <= near:
            return {
                deal.agents[index]: event["utilities"][index] + float(deal.payments[index])
                for index in deal.members
                if event["utilities"][index] is not None
            }
    return {}
