"""Figures beside their targets: make bench."""
