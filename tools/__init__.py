"""Generators of files in deploy/, docs/ and the package, for developers. They are not part of the wheel."""
