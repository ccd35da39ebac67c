"""Import of PyTorch modules: `spec` makes a module, `trace` its operations, `graph` a computation graph of them."""
