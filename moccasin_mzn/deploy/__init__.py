"""Plans for runtimes: as source in C, as a TFLite model."""
