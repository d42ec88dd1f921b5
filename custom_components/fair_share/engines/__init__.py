"""Inference servers behind one protocol.

Imports only ``admission`` and aiohttp; nothing of Home Assistant.
"""
