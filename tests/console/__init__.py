"""The web console: its pages, its acts, and what it must not do."""
