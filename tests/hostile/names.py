"""Hostile names of documents: what a client may put behind `/documents/`, and whether it can be a name at all.

As bytes, because a client can send any: each is to be percent-encoded into the address.
"""

from dataclasses import dataclass

DOCUMENT = b"Water flows through the penstock."


@dataclass(frozen=True, slots=True)
class Name:
    """`kept` is how it is to be shown afterwards; None when it must be refused with a sentence."""

    what: str
    raw: bytes
    kept: str | None


def refused(what: str, raw: bytes | str) -> Name:
    return Name(what, raw.encode() if isinstance(raw, str) else raw, None)


def kept(what: str, raw: str, shown: str | None = None) -> Name:
    return Name(what, raw.encode(), raw if shown is None else shown)


NAMES = (
    refused("way up", "../../etc/passwd"),
    refused("way up in the middle", "a/../../b.txt"),
    refused("way up with backslashes", "..\\..\\boot.ini"),
    refused("absolute", "/etc/passwd"),
    refused("drive", "C:\\Windows\\win.ini"),
    refused("zero", "a\0.txt"),
    refused("control characters", "a\x07\x1b[2Jb.txt"),
    refused("line end", "a\r\nSet-Cookie: b=c"),
    refused("line separator", "a\u2028b.txt"),
    refused("5,000 characters", "n" * 5_000 + ".txt"),
    refused("400 emoji", "\U0001f30a" * 400),
    refused("one dot", "."),
    refused("two dots", ".."),
    refused("only blanks", "   "),
    refused("only invisible", "\u200b\u200e\ufeff"),
    refused("empty part", "a//b.txt"),
    refused("folder", "reports/"),
    refused("half a character", b"a\xed\xa0\x80.txt"),
    refused("latin-1", b"Gr\xfc\xdfe.txt"),
    refused("overlong", b"a\xc0\xaf..\xc0\xafb.txt"),
    kept("emoji", "\U0001f30a\U0001f469\u200d\U0001f52c.txt"),
    kept("right-to-left override", "invoice\u202etxt.exe", "invoicetxt.exe"),
    kept("right-to-left letters", "מים.txt"),
    kept("combining", "e\u0301tude.txt", "\u00e9tude.txt"),
    kept("trailing blanks", "report.txt   ", "report.txt"),
    kept("device", "con"),
    kept("device with extension", "nul.txt"),
    kept("three dots", "..."),
    kept("hidden", ".env"),
    kept("option", "-rf"),
    kept("markup", "<script>alert(1)</script>.txt"),
    kept("quotes", "a'; drop table documents; --\".txt"),
    kept("percent", "100%25.txt"),
    kept("question", "what?a=b&c#d.txt"),
    kept("star", "*.txt"),
    kept("template", "{{7*7}}${x}.txt"),
    kept("home", "~root/.ssh.txt"),
    kept("member of another", "mail.eml!/a.txt"),
    kept("looks like a folder", "a.pdf/b.pdf"),
    kept("one letter", "a"),
    kept("number", "1"),
    kept("1,024 bytes", "n" * 1_020 + ".txt"),
)
