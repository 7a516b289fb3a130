"""Fuzzing of every decoder and reader: see targets.py for what is attacked, and running.py for how."""
