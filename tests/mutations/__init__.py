"""Faults put into the queue by hand, to see that a test notices each.

``python -m tests.mutations`` tries them and prints which test noticed what.
"""
