"""An int8 network of TensorFlow Lite as C99 that runs in the arena of a plan, whole or in parts."""
