"""Pages as a browser without scripts reads them, and the forms that it sends."""

from html.parser import HTMLParser
from typing import Any

from tests.web.conftest import Answer, Api

HTML = {"Accept": "text/html"}


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.source = answer.body.decode()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        for name in ("href", "src"):
            if name in given:
                self.links.append(given[name])
        if tag == "form":
            self.forms.append((given.get("action", ""), {}))
        if tag == "input" and self.forms and given.get("type") == "hidden":
            self.forms[-1][1][given["name"]] = given["value"]

    def handle_data(self, data: str) -> None:
        self.text += data


def check(answer: Answer) -> Seen:
    """What holds for each page: the policy, and that it needs nothing that the policy forbids."""
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "same-origin")
    seen = Seen(answer)
    for tag, given in seen.tags:
        assert tag != "style", "no style in a page"
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        assert tag != "script" or given["src"].startswith("/static/"), given
    return seen


async def get(api: Api, path: str, **headers: str) -> Answer:
    return await api.get(path, headers=HTML | headers)


async def send(api: Api, path: str, **fields: Any) -> Answer:
    """A plain form, as a browser without scripts sends it."""
    origin = {"Origin": f"http://127.0.0.1:{api.port}", "Sec-Fetch-Site": "same-origin"}
    return await api.ask("POST", path, data=fields or None, headers=HTML | origin, allow_redirects=False)
