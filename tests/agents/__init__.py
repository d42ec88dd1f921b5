"""Tests of the household layer."""
