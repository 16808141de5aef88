"""A campaign of random checks: designs, motions, files and command lines, each judged by an oracle that needs no reference.

An oracle is a class with a `question`, an `answer` by jaxmbs, and a `judge` that knows what must hold of it; see
`campaign/oracle.py`. Whatever does not hold is a find, kept with the seed that reproduces it.
"""
