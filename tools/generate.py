"""Write every file that is made from the code (`./dev generate`): alert rules, dashboard, and tables of the documentation.

The rules and the dashboard are written twice: for deploy/, and for the package, where `penstock metrics alerts` and
`penstock metrics dashboard` print them. In a page, a comment names the table that follows it.
"""

import re
from pathlib import Path

from tools.alerts import alerts_table, rules_file
from tools.dashboard import dashboard_file
from tools.findings import findings_table
from tools.metrics import metrics_table
from tools.settings import settings_page

ROOT = Path(__file__).parents[1]
PACKAGED = "src/penstock/operations/files"


def generate() -> dict[str, str]:
    """The text of each generated file, by its path from the root."""
    rules, dashboard = rules_file(), dashboard_file()
    return {
        "deploy/prometheus/penstock.rules.yml": rules,
        "deploy/grafana/penstock.json": dashboard,
        f"{PACKAGED}/penstock.rules.yml": rules,
        f"{PACKAGED}/penstock-dashboard.json": dashboard,
        "docs/settings.md": settings_page(),
        "docs/explain.md": fill_tables("docs/explain.md", {"findings": findings_table()}),
        "docs/metrics.md": fill_tables(
            "docs/metrics.md",
            {
                "metrics of the process": metrics_table(fleet=False),
                "metrics of the fleet": metrics_table(fleet=True),
                "alerts": alerts_table(),
            },
        ),
    }


def fill_tables(path: str, tables: dict[str, str]) -> str:
    """The page with the lines after each comment replaced, up to the first that is not part of a table."""
    text = (ROOT / path).read_text()
    for name, table in tables.items():
        comment = f"<!-- ./dev generate: {name} -->\n\n"
        before, found, after = text.partition(comment)
        if not found:
            raise ValueError(f"{path} has no comment {comment.strip()}: put it where the table belongs.")
        text = before + comment + table + re.sub(r"\A(\|.*\n)*", "", after)
    return text


def main() -> None:
    for path, text in generate().items():
        place = ROOT / path
        if not place.exists() or place.read_text() != text:
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
