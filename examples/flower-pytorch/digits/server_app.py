"""The server; what is new under a deal is marked."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import make_model
from fedpact.flower import UnderDeal

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Federated averaging, under the deal."""
    config = context.run_config
    strategy = FedAvg()
    strategy = UnderDeal(  # new
        strategy, config["deal"], samples_per_unit=float(config["samples-per-unit"]), ledger=config["ledger"]
    )
    strategy.start(grid, ArrayRecord(make_model().state_dict()), num_rounds=int(config["num-server-rounds"]))
