"""Several memories: devices that compute, slow memory that only holds, and copies between them."""
