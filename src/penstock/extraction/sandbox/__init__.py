"""Sandbox processes, in which hostile documents are read (`python -m penstock.extraction.sandbox`).

A task passes through: pool.py (a free child, retries) → process.py (one child) → exchange.py (frames of one task, limits)
→ protocol.py (the frames) → __main__.py (the child, which confines itself with confinement.py and seccomp.py). monitor.py
measures the child meanwhile.
"""
