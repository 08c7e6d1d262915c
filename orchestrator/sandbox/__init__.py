"""Throwaway servers on this machine: find or unpack a MySQL server, and run a primary and a replica of it."""
