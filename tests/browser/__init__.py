"""The demo's household in a real browser; see ``scripts/screenshots``."""
