"""Slow, plain NumPy recomputations of what the package promises, written from the definitions alone."""
