"""Handwritten digits with PyTorch, under a deal."""
