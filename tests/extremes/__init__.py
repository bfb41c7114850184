"""Random federations over many orders of magnitude, solved by every mechanism and judged by routes of their own.

`make test-extremes` runs it; `federations` draws, `exact` and `extended` work out what is right, `trials` compares,
`evaluator` is the process that may hang or die, and `__main__` counts.
"""
