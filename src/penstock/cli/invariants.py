"""`penstock invariants`: whether what must always be true is true, query by query."""

import typer

from penstock.cli.asking import Json, ask, print_json, print_table
from penstock.engine.wording import counted


def invariants(as_json: Json = False) -> None:
    """Look at all invariants, completely; exit code 1 if one is violated. A worker looks at some pages every ten minutes."""
    from penstock.operations.invariants import verify

    verdicts = ask(lambda penstock: verify(penstock.database))
    broken = [verdict for verdict in verdicts if verdict.violations]
    if as_json:
        print_json({"hold": not broken, "invariants": [verdict.as_json() for verdict in verdicts]})
    else:
        rows = (
            (each.invariant.number, each.invariant.rule, each.subjects or "", each.violations, f"{each.seconds:.2f} s")
            for each in verdicts
        )
        print_table(("number", "what must be true", "looked at", "violations", "took"), rows)
        for verdict in broken:
            typer.echo(f"\n{verdict.invariant.number}  {verdict.invariant.rule}")
            for said in verdict.shown:
                typer.echo(f"  {said}")
            if verdict.violations > len(verdict.shown):
                typer.echo(f"  and {verdict.violations - len(verdict.shown):,} more")
        if not broken:
            typer.echo(f"All {counted(len(verdicts), 'invariant')} hold.")
    if broken:
        raise typer.Exit(1)
