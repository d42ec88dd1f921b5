"""Tests of Fair Share."""
