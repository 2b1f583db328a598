"""Drivers: the only place for scans, compilation, devices and files of states."""
