"""Tools for working on Penstock: they write the reference pages and fold the notes of a release."""
