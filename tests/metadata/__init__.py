"""Tests of what is no code: manifest, texts, icons, actions, blueprints."""
