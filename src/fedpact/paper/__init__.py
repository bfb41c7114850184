"""The paper's model-based results, one module per figure or table."""
