"""Coalition models trained by federated averaging, against one PyTorch or scikit-learn model at a time.

Both train the paper's network from scratch on the same images, for every coalition of three agents and for profiles of
smaller contributions, with the same rounds, minibatches and rates. The obvious way is written without data loaders,
which would only make it slower; it has its own random numbers, so accuracies agree within noise, which is stated.
PyTorch gets one thread: on matrices as small as these it is at its fastest with one. scikit-learn's MLPClassifier takes
the same steps by `partial_fit`. Two threads are held against one by the clock, so the machine must be idle.
"""

import json
import os
import subprocess
import sys
import time
from itertools import product

import numpy as np

from benchmarks.figures import Figure
from benchmarks.timing import once

SAMPLED = 12
AT_LEAST = 4.0
AT_LEAST_ON_TWO_CORES = 1.7
AGAINST = "PyTorch, one model at a time"
REPEATS = 3
ON_THREADS = """
import json, sys, time
from fedpact.training import Experiment, mnist
profiles, seconds = json.load(sys.stdin), []
experiment = Experiment(mnist())
experiment.accuracies(profiles[:1])
for _ in range({repeats}):
    start = time.perf_counter()
    experiment.accuracies(profiles)
    seconds.append(time.perf_counter() - start)
print(min(seconds))
"""


def run():
    from fedpact.training import Experiment, mnist

    experiment = Experiment(mnist())
    profiles = asked(experiment.available)
    experiment.accuracies(profiles[:1])  # compiles
    runs = [
        (timed(lambda: experiment.accuracies(profiles)), timed(lambda: one_by_one(experiment, profiles, seed)))
        for seed in range(REPEATS)
    ]
    accuracies = [np.mean([run[side][2] for run in runs]) for side in range(2)]
    what = f"{len(profiles)} models of three agents (accuracy {accuracies[0]:.3f} against {accuracies[1]:.3f})"
    processor, seconds = (
        np.min([[run[side][clock] for side in range(2)] for run in runs], axis=0) for clock in range(2)
    )
    ratio = processor[1] / processor[0]
    yield Figure(what=f"{what}, processor time", against=AGAINST, ratio=ratio, at_least=AT_LEAST)
    yield Figure(what=f"{what}, time", against=AGAINST, ratio=seconds[1] / seconds[0])
    theirs, found = once(lambda: by_scikit_learn(experiment, profiles))
    what = f"{len(profiles)} models of three agents (accuracy {accuracies[0]:.3f} against {found.mean():.3f})"
    against = "scikit-learn's MLPClassifier, one model at a time"
    yield Figure(what=f"{what}, processor time", against=against, ratio=theirs / processor[0])
    threads = os.cpu_count() or 1
    alone, together = (on_threads(profiles, count) for count in (1, threads))
    what = f"{len(profiles)} models of three agents, time on {threads} threads"
    yield Figure(what=what, against=f"{AGAINST}, one thread", ratio=seconds[1] / together)
    if threads > 1:
        yield Figure(what=what, against="time on one thread", ratio=alone / together, at_least=AT_LEAST_ON_TWO_CORES)


def asked(available):
    """Every coalition with all it has, and as many profiles of smaller contributions."""
    coalitions = [members * available for members in map(np.array, product([0, 1], repeat=len(available)))][1:]
    smaller = np.random.default_rng(0).integers(10, available + 1, (SAMPLED, len(available)))
    return np.array([*coalitions, *smaller])


def timed(call):
    """Processor seconds, seconds, and what the call returned."""
    start = time.perf_counter()
    processor, result = once(call)
    return processor, time.perf_counter() - start, result


def on_threads(profiles, threads):
    """Seconds for all profiles on so many threads, in a process of its own: this one has a single thread."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ran = subprocess.run(
        [sys.executable, "-c", ON_THREADS.format(repeats=REPEATS)],
        input=json.dumps(profiles.tolist()),
        env=environment | {"FEDPACT_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


def one_by_one(experiment, profiles, seed):
    """Accuracies of all agents for every profile, with PyTorch."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    holdings = [
        (torch.tensor(own.pixels), torch.tensor(own.labels).long(), torch.tensor(own.test_pixels), own.test_labels)
        for own in experiment.holdings
    ]
    found = []
    for profile in profiles:
        model = federated(holdings, profile.tolist(), experiment.training)
        with torch.no_grad():
            answers = [(model(test).argmax(dim=1).numpy(), labels) for *_, test, labels in holdings]
        found.append([(answer == labels).mean() for answer, labels in answers])
    return np.array(found)


def federated(holdings, profile, training):
    """One model by federated averaging, as one writes it first."""
    import copy

    import torch

    model = network(holdings[0][0].shape[1])
    members = [(own[0][:used], own[1][:used]) for own, used in zip(holdings, profile, strict=True) if used]
    total = sum(profile)
    for _ in range(training.rounds):
        average = {name: torch.zeros_like(part) for name, part in model.state_dict().items()}
        for pixels, labels in members:
            local = copy.deepcopy(model)
            train_locally(local, pixels, labels, training)
            for name, part in local.state_dict().items():
                average[name] += len(labels) / total * part
        model.load_state_dict(average)
    return model


def by_scikit_learn(experiment, profiles):
    """Accuracies of all agents for every profile, with scikit-learn."""
    from sklearn.neural_network import MLPClassifier

    training, holdings = experiment.training, experiment.holdings
    labels = np.unique(np.concatenate([own.labels for own in holdings]))
    found = []
    for profile in profiles.tolist():
        model = MLPClassifier(
            training.hidden, solver="sgd", alpha=0.0, batch_size=1, nesterovs_momentum=False,
            learning_rate_init=training.learning_rate, momentum=training.momentum, random_state=0,
        )  # fmt: skip
        members = [(own.pixels[:used], own.labels[:used]) for own, used in zip(holdings, profile, strict=True) if used]
        average_in_rounds(model, members, labels, training)
        found.append([model.score(own.test_pixels, own.test_labels) for own in holdings])
    return np.array(found)


def average_in_rounds(model, members, labels, training):
    """Federated averaging: every member goes on from the common model, and its momentum begins anew."""
    model.partial_fit(members[0][0][:1], members[0][1][:1], classes=labels)  # makes the weights: a step on one sample
    total = sum(len(own) for _, own in members)
    for _ in range(training.rounds):
        common = [part.copy() for part in weights_of(model)]
        locally = []
        for pixels, own in members:
            set_weights(model, common)
            del model._optimizer
            model.batch_size = min(training.batch_size, len(own))
            for _ in range(training.local_epochs):
                model.partial_fit(pixels, own)
            locally.append([len(own) / total * part for part in weights_of(model)])
        set_weights(model, [sum(parts) for parts in zip(*locally, strict=True)])


def weights_of(model):
    return [*model.coefs_, *model.intercepts_]


def set_weights(model, weights):
    for part, new in zip(weights_of(model), weights, strict=True):
        part[:] = new


def train_locally(model, pixels, labels, training):
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=training.learning_rate, momentum=training.momentum)
    loss_of = torch.nn.NLLLoss()
    for _ in range(training.local_epochs):
        order = torch.randperm(len(labels))
        for start in range(0, len(labels), training.batch_size):
            batch = order[start : start + training.batch_size]
            optimiser.zero_grad()
            loss_of(model(pixels[batch]), labels[batch]).backward()
            optimiser.step()


def network(n_pixels):
    from torch import nn

    layers = [nn.Linear(n_pixels, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(1)]
    return nn.Sequential(*layers)
