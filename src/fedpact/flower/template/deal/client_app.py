"""A node: it negotiates from its private file, signs what it has checked, and trains on what it agreed to.

For data of your own write a class with `samples`, `train` and `evaluate` (`fedpact.flower.Learner`) in place of
`MnistLearner`, in any framework; it is made anew for every message, so import heavy packages inside its methods.
"""

from fedpact.flower import client_app
from fedpact.flower.mnist import MnistLearner

app = client_app(MnistLearner)
