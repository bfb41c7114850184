"""fedpact on Flower: negotiate, train and settle between nodes, from a simulation to several organisations.

* `server_app` and `client_app` make a whole app; `fedpact flower new` writes one.
* `UnderDeal` puts any strategy under a deal, `keep_deal` and `agreed_samples` go with it on the nodes.

It needs Flower: `pip install "fedpact[flower]"`, which takes the versions that its tests pass with.

May use: utils, federation, scenario, shapley, certificates, solvers, deals, mechanisms, negotiation, fitting,
training.
"""

from fedpact.utils.errors import MissingExtra

try:
    import flwr.app
    import flwr.serverapp.strategy  # noqa: F401 - said once here for all modules, and of versions that are too old
except ImportError as error:
    raise MissingExtra("Flower support", "flower") from error

from fedpact.flower.node import Learner, Score, agreed_samples, client_app, keep_deal
from fedpact.flower.run import Lost
from fedpact.flower.server import server_app
from fedpact.flower.strategy import UnderDeal

__all__ = ["Learner", "Lost", "Score", "UnderDeal", "agreed_samples", "client_app", "keep_deal", "server_app"]
