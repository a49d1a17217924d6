"""Penstock measured beside its peers and beside what PostgreSQL allows. Run from a checkout: `./dev bench engine`.

`stage` has the server, its databases, and the processes that work on them; `side` is what runs in such a process, with one
of `systems`; `measures` has a module for each question; `report` says what came out. Nothing here is shipped or tested:
figures depend on the machine, and only ratios of one run mean something.
"""
