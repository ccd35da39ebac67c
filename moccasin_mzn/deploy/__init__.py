"""Plans for runtimes: ONNX and TFLite models that compute in their order, each as often as it is there; source in C."""
