"""Ratios against the raw server and the bare interpreter, both sides measured in the same run, interleaved."""
