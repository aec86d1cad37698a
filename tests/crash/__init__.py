"""Faults on purpose: killed, stopped, cut off, contending processes, and the account that must balance."""
