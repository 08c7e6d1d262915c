"""Wiring: the only room that knows concrete classes."""
