"""Coalition models trained by federated averaging: on both cores, and against scikit-learn's MLPClassifier.

The PyTorch of `benchmarks.training` needs an environment of its own; this needs none but fedpact's. scikit-learn trains
one model at a time on the pooled images of those who take part, with the same network, rates and number of epochs. On
several threads the time is the processor time of the busiest thread, which is what a machine without other work takes.
"""

import json
import os
import subprocess
import sys
import warnings

import numpy as np

from benchmarks.figures import Figure
from benchmarks.timing import once
from benchmarks.training import asked

ON_THREADS = """
import json, sys, threading, time
from fedpact.training import Experiment, mnist
experiment = Experiment(mnist())
profiles, found = json.load(sys.stdin), []
experiment.accuracies(profiles[:1])
for _ in range(2):
    ends, plain = [], threading.Thread.run
    def run(thread):
        plain(thread)
        ends.append(time.thread_time())
    threading.Thread.run = run
    start = time.process_time()
    experiment.accuracies(profiles)
    threading.Thread.run = plain
    found.append((max(ends), time.process_time() - start))
print(json.dumps(min(found)))
"""
THREADS = 2


def run():
    from fedpact.training import Experiment, mnist

    experiment = Experiment(mnist())
    profiles = asked(experiment.available)
    experiment.accuracies(profiles[:1])  # compiles
    ours, accuracies = once(lambda: experiment.accuracies(profiles))
    theirs, others = once(lambda: by_scikit_learn(experiment, profiles))
    what = f"{len(profiles)} models of three members"
    yield Figure(
        what=f"{what} (accuracy {np.mean(accuracies):.3f} against {np.mean(others):.3f}), processor time",
        against="scikit-learn's MLPClassifier, one model at a time on pooled data",
        ratio=theirs / ours,
        at_least=1.0,
    )
    one, several = (on_threads(profiles, count)[0] for count in (1, THREADS))
    yield Figure(
        what=f"{what} on {THREADS} threads, time of the busiest thread",
        against="one thread",
        ratio=one / several,
        at_least=1.7,
    )


def on_threads(profiles, threads):
    """Processor seconds of the busiest thread, and of all, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ran = subprocess.run(
        [sys.executable, "-c", ON_THREADS],
        input=json.dumps(profiles.tolist()),
        env=environment | {"FEDPACT_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


def by_scikit_learn(experiment, profiles):
    """Accuracies of all members for every profile."""
    from sklearn.neural_network import MLPClassifier

    training, found = experiment.training, []
    for profile in profiles:
        used = [(own, count) for own, count in zip(experiment.holdings, profile, strict=True) if count]
        pixels = np.concatenate([own.pixels[:count] for own, count in used])
        labels = np.concatenate([own.labels[:count] for own, count in used])
        model = MLPClassifier(
            training.hidden,
            solver="sgd",
            alpha=0.0,
            batch_size=min(training.batch_size, len(labels)),
            learning_rate_init=training.learning_rate,
            momentum=training.momentum,
            nesterovs_momentum=False,
            max_iter=training.rounds * training.local_epochs,
            tol=0.0,
            n_iter_no_change=10**6,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge: it trains as long as the others
            model.fit(pixels, labels)
        found.append([(model.predict(own.test_pixels) == own.test_labels).mean() for own in experiment.holdings])
    return np.array(found)
