"""The coordinator: it negotiates, trains, measures and settles, and keeps the ledger.

`strategy=lambda context: FedAvgM(...)` trains with another strategy.
"""

from fedpact.flower import server_app
from fedpact.flower.mnist import first_model

app = server_app(first_model)
