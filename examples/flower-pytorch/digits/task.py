"""The network and the data, as any PyTorch app has them."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

from fedpact.training import mnist


def make_model() -> nn.Module:
    """A small fully connected network; the seed makes every start the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def load_data(partition: int, partitions: int) -> tuple[Dataset, Dataset]:
    """A node's own images: four fifths to train on, the rest to test."""
    images = mnist()
    everything = TensorDataset(torch.tensor(images.pixels), torch.tensor(images.labels, dtype=torch.long))
    own = Subset(everything, range(partition, len(everything), partitions))
    count = len(own) // 5
    return tuple(random_split(own, [len(own) - count, count], torch.Generator().manual_seed(partition)))


def train(model: nn.Module, samples: Dataset, *, rate: float = 0.05) -> float:
    """One epoch; the mean loss."""
    optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), nn.CrossEntropyLoss()
    total = 0.0
    for pixels, labels in DataLoader(samples, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        loss = loss_of(model(pixels), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(samples)


def test(model: nn.Module, samples: Dataset) -> float:
    """The share of right answers."""
    with torch.no_grad():
        right = sum(int((model(pixels).argmax(1) == labels).sum()) for pixels, labels in DataLoader(samples, 256))
    return right / len(samples)
