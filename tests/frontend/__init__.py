"""The dashboard that comes with the integration."""
