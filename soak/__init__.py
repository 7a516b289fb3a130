"""All parts together for a long time, under faults: `python -m soak`. What was found is judged at the end."""
