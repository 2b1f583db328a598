"""Array-API functions on arrays `(k, p, *streams)`: they do not import jax and have no state."""
