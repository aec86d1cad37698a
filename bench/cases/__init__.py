"""The cases, one file each; every module here is found and run."""
