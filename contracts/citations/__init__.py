"""Which numbers of an answer stand in the results that it cites. Pure functions: text and results in, verdicts out.

`read_answer` finds claims and citations in a text; `check_answer` says of each claim which cell it came from, if any.
"""
