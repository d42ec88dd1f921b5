"""Streams that broke programs elsewhere, through both doors of the household."""
