"""Calling handlers: in threads or an event loop, within their limits, and no longer than their time-out."""
