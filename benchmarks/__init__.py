"""What things cost, measured as ratios within one run. `make bench` runs everything and writes RESULTS.md.

A part is a module that measures and makes a `Report` (report.py); parts.py lists them. `python -m benchmarks` runs
parts and keeps their reports in results/; pages (markdown.py), plots (plots.py, bars.py) and the figures on top of
RESULTS.md (claims.py) are drawn from those alone.
"""
