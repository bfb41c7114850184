"""Federated training of many small models: what accuracy does each agent get from whose data?

`Experiment` deals images to agents and trains the paper's network by federated averaging for any contribution profile,
as fast as the cores allow; `train_under` trains under a deal. It needs JAX:
`pip install "fedpact[train]"`.

May use: utils, federation, scenario, shapley, certificates, solvers, deals, mechanisms, fitting.
"""

from fedpact.training.data import Images, mnist
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.run import Run, train_under
from fedpact.training.settings import Training

__all__ = ["Experiment", "Histories", "Images", "Run", "Training", "mnist", "train_under"]
