"""TinyQ's protocol without its socket: the old one byte for byte (`frames.py`), and the frames that a client
may negotiate (`messages.py`).
"""
