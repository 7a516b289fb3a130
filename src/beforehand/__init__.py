"""Beforehand: the events of a distributed system in the order in which they could have caused each other.

The rooms of the house, each importing only those above it:

    errors      every error we raise, as one tree
    events      the event record that every room hands to the next
    clocks      stamps and the clocks that issue them, with their wire forms
    formats     bytes to events and back
    predicate   the small `where` language
    history     one execution in memory: precedence, cuts, runs, checks, measures
    diagram     space-time layout and SVG
    cli         the `beforehand` command
"""

__version__ = "0.1.0"
