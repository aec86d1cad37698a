"""Rules that must hold for the whole tree, each with a planted breach that it must find."""
