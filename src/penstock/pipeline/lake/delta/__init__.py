"""Delta tables: one table at one moment, its log, and the rules that others have set for it."""
