"""Hostile clients and hostile servers, with the gateway between them."""
