"""Training PyTorch networks within a budget: what steps and operators really take, measured."""
