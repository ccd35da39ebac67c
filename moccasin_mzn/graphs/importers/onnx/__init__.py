"""Import of ONNX models: `file` reads a file, `network` makes a graph of it, `profile` measures its nodes."""
