"""The fair-admission queue: which request starts next, where, and why.

Pure Python. Nothing in this package imports Home Assistant, does I/O, or reads a
clock of its own; only ``queue`` awaits. The same code therefore decides in
production, in the simulator and in the property tests.
"""
