"""Tests of the platforms, actions and blueprints."""
