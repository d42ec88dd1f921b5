"""Every blueprint runs as an automation, before the real integration."""
