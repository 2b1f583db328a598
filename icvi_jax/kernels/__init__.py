"""Array-API functions on arrays `(k, p, *streams)`: nothing here imports jax, keeps state or knows a stream's past."""
