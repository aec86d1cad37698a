"""The doors of `penstock serve` under load, and the bare programs that they are held against."""
