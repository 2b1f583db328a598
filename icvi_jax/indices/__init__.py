"""Indices: one file each, the equation in its docstring. Adding one is a file here and a line below."""

from icvi_jax.indices.base import Index
from icvi_jax.indices.davies_bouldin import DaviesBouldin
from icvi_jax.indices.xie_beni import XieBeni

__all__ = ["DaviesBouldin", "Index", "XieBeni"]
