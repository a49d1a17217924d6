"""The import-linter contract "public_names": other packages import a package by its root, or by a sub-package that it names.

[[tool.importlinter.contracts]]
name = "engine is imported by its public names"
type = "public_names"
package = "penstock.engine"
sub_packages = ["inspect", "limits"]
"""

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PublicNames(Contract):
    """No module outside of `package` imports one of its modules, except its root and the roots of `sub_packages`."""

    package = fields.StringField()
    sub_packages = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        package: Any = self.package  # what the configuration has for this field
        sub_packages: Any = self.sub_packages
        public = {package, *(f"{package}.{name}" for name in sub_packages or ())}
        unknown = sorted(public - graph.modules)
        inside = graph.find_descendants(package) | {package}
        past = [
            (importer, module)
            for module in sorted(inside - public)
            for importer in sorted(graph.find_modules_that_directly_import(module) - inside)
        ]
        return ContractCheck(kept=not past and not unknown, metadata={"past": past, "unknown": unknown})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for name in check.metadata["unknown"]:
            output.print_error(f"{name} does not exist")
        for importer, module in check.metadata["past"]:
            output.print_error(f"{importer} imports {module}: import the name from the package, or export it there")
