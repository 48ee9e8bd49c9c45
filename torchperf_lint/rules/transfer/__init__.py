"""Copies between host and device, and data created on the wrong side."""
