"""The seeds' known bugs, a test or more each with the bug's id in its name; `test_index.py` lists them."""
