"""What things cost, measured as ratios within one run. `make bench` runs everything and writes RESULTS.md."""
