"""Every generated file is as `./dev generate` writes it."""

from pathlib import Path

import pytest

from tools.generate import PACKAGED, ROOT, fill_tables, generate

GENERATED = generate()


@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_file_is_current(path: str) -> None:
    assert (ROOT / path).read_text() == GENERATED[path], "run: ./dev generate"


def test_the_package_has_the_files_of_deploy() -> None:
    for packaged, deployed in (
        ("penstock.rules.yml", "prometheus/penstock.rules.yml"),
        ("penstock-dashboard.json", "grafana/penstock.json"),
    ):
        assert (ROOT / PACKAGED / packaged).read_text() == (ROOT / "deploy" / deployed).read_text()


def test_a_table_that_is_out_of_date_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text("# Page\n\n<!-- ./dev generate: rows -->\n\n| old |\n|---|\n| 1 |\n\nafter\n")
    monkeypatch.setattr("tools.generate.ROOT", tmp_path)
    table = "| new |\n|---|\n| \\1 |\n"
    assert fill_tables("page.md", {"rows": table}) == f"# Page\n\n<!-- ./dev generate: rows -->\n\n{table}\nafter\n"
    with pytest.raises(ValueError, match=r"page\.md has no comment <!-- \./dev generate: columns -->"):
        fill_tables("page.md", {"columns": table})
