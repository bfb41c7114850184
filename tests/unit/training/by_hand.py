"""Federated averaging in plain NumPy, double precision, written apart from the compiled one; slow and simple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedpact.training.data import Holdings

Layers = list[list[np.ndarray]]


def forward(layers: Layers, pixels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs of every layer, and log-probabilities."""
    inputs, found = [], pixels
    for place, (matrix, offset) in enumerate(layers):
        inputs.append(found)
        found = found @ matrix + offset
        if place < len(layers) - 1:
            found = np.maximum(found, 0)
    found = found - found.max(axis=1, keepdims=True)
    return inputs, found - np.log(np.exp(found).sum(axis=1, keepdims=True))


def gradients(layers: Layers, pixels: np.ndarray, labels: np.ndarray) -> Layers:
    inputs, found = forward(layers, pixels)
    error = (np.exp(found) - np.eye(found.shape[1])[labels]) / len(labels)
    slopes: Layers = []
    for (matrix, _), given in zip(reversed(layers), reversed(inputs), strict=True):
        slopes.insert(0, [given.T @ error, error.sum(axis=0)])
        error = (error @ matrix.T) * (given > 0)
    return slopes


def chosen_samples(own: Holdings, used: np.ndarray) -> np.ndarray:
    """Whether each sample is used: the first ones of every lot, as many as are used of it."""
    chosen = np.zeros(len(own.lots), dtype=bool)
    for lot in np.unique(own.lots):
        chosen[np.flatnonzero(own.lots == lot)[: used[lot]]] = True
    return chosen


def local(layers: Layers, own: Holdings, chosen: np.ndarray, orders: np.ndarray, training: Any) -> Layers:
    layers = [[part.copy() for part in layer] for layer in layers]
    velocity = [[np.zeros_like(part) for part in layer] for layer in layers]
    for everybody in orders:
        order = everybody[chosen[everybody]]
        for start in range(0, len(order), training.batch_size):
            batch = order[start : start + training.batch_size]
            slopes = gradients(layers, own.pixels[batch].astype(float), own.labels[batch])
            for layer, speed, slope in zip(layers, velocity, slopes, strict=True):
                for place in range(2):
                    speed[place] = training.momentum * speed[place] + slope[place]
                    layer[place] = layer[place] - training.learning_rate * speed[place]
    return layers


def federated(
    layers: Layers,
    holdings: Sequence[Holdings],
    schedule: np.ndarray,
    orders: Sequence[Sequence[np.ndarray]],
    training: Any,
) -> list[Layers]:
    """The model after every round; `orders[round][agent]` has a row per local epoch, `schedule[round]` is by lot."""
    models = []
    for used, given in zip(schedule, orders, strict=True):
        chosen = [chosen_samples(own, used) for own in holdings]
        members = [agent for agent in range(len(holdings)) if chosen[agent].any()]
        trained = [local(layers, holdings[agent], chosen[agent], given[agent], training) for agent in members]
        if members:
            layers = mean_model(trained, [int(chosen[agent].sum()) for agent in members])
        models.append(layers)
    return models


def personal(
    layers: Layers,
    holdings: Sequence[Holdings],
    schedule: np.ndarray,
    orders: Sequence[Sequence[np.ndarray]],
    training: Any,
    *,
    wanted: np.ndarray,
) -> list[list[Layers]]:
    """Everybody's own model after every round; `wanted[agent, lot]` says what its model is made of.

    An agent trains once on the lots that the same agents want.
    """
    own, history = [layers] * len(holdings), []
    for used, given in zip(schedule, orders, strict=True):
        made: list[tuple[np.ndarray, Layers, int]] = []
        for agent, held in enumerate(holdings):
            for who in {tuple(wanted[:, lot].tolist()) for lot in np.unique(held.lots)}:
                together = np.where((wanted == np.array(who)[:, None]).all(axis=0), used, 0)
                chosen = chosen_samples(held, together)
                if chosen.any():
                    made.append((np.array(who), local(own[agent], held, chosen, given[agent], training), chosen.sum()))
        after = []
        for agent, before in enumerate(own):
            taken = [(model, count) for who, model, count in made if who[agent]]
            after.append(mean_model(*zip(*taken, strict=True)) if taken else before)
        own = after
        history.append(own)
    return history


def mean_model(models: Sequence[Layers], counts: Sequence[int]) -> Layers:
    """The average by samples."""
    shares = np.array(counts) / sum(counts)
    return [
        [sum(share * model[depth][place] for share, model in zip(shares, models, strict=True)) for place in range(2)]
        for depth in range(len(models[0]))
    ]


def measured(layers: Layers, own: Holdings) -> tuple[float, float]:
    """Accuracy and mean loss on an agent's test set."""
    _, found = forward(layers, own.test_pixels.astype(float))
    right = found.argmax(axis=1) == own.test_labels
    return float(right.mean()), float(-found[np.arange(len(right)), own.test_labels].mean())
