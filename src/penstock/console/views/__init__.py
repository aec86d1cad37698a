"""The pages: each calls operations and returns a template with their answers."""
