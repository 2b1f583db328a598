"""The engine: the only place for scans, compilation and devices."""
