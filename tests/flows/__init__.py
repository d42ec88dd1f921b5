"""Tests of the dialogs."""
