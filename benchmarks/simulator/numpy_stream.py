"""The random numbers that NumPy's seeded global generator gives, without NumPy.

The published workloads were drawn with ``numpy.random.seed(42)``. NumPy and Python use
the same Mersenne Twister and make the same doubles of it, but seed it differently.
"""

from math import log
from random import Random

_WORDS = 624
_MULTIPLIER = 1_812_433_253
_MASK = 0xFFFFFFFF


def numpy_stream(seed: int) -> Random:
    """Return a generator whose ``random()`` equals ``numpy.random.rand()``."""
    words = [seed]
    for number in range(1, _WORDS):
        last = words[-1]
        words.append((_MULTIPLIER * (last ^ (last >> 30)) + number) & _MASK)
    stream = Random()
    stream.setstate((3, (*words, _WORDS), None))
    return stream


def exponential(stream: Random, scale: float) -> float:
    """Return what ``numpy.random.gamma(1, scale)`` would: an exponential interval."""
    return -log(1.0 - stream.random()) * scale
