"""The pages: each asks operations and returns a template with what they gave."""
