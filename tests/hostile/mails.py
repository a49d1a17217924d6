"""Mails: parts without number, mails in mails, headers without an end, and names of attachments."""

from collections.abc import Iterator

from tests.hostile.file import File, either, ready
from tests.hostile.good import MAIL_HEAD as HEAD
from tests.hostile.good import WORDS

MIXED = 'Content-Type: multipart/mixed; boundary="%s"\r\n\r\n'
PART = "--%s\r\nContent-Type: text/plain\r\n\r\nwater\r\n"


def files() -> Iterator[File]:
    yield from parts()
    yield from headers()
    yield from bodies()
    yield from attachments()


def parts() -> Iterator[File]:
    def deep(levels: int) -> bytes:
        return (HEAD + "".join(MIXED % f"b{n}" + f"--b{n}\r\n" for n in range(levels)) + "\r\nwater\r\n").encode()

    def forwarded(levels: int) -> bytes:
        return (HEAD + (f"Content-Type: message/rfc822\r\n\r\n{HEAD}" * levels) + "\r\n" + WORDS).encode()

    def carrying(levels: int) -> bytes:  # each mail is an attachment of the one around it
        opening = "".join(
            f"{HEAD}{MIXED % f'b{n}'}--b{n}\r\nContent-Type: message/rfc822\r\n\r\n" for n in range(levels)
        )
        return (opening + HEAD + "\r\n" + WORDS + "".join(f"\r\n--b{n}--" for n in reversed(range(levels)))).encode()

    yield either("mail-10000-parts.eml", lambda: HEAD + MIXED % "b" + (PART % "b") * 10_000 + "--b--")
    yield either("mail-multiparts-3000-deep.eml", lambda: deep(3_000))
    yield either("mail-multiparts-150-deep.eml", lambda: deep(150))
    yield either("mail-forwarded-2000-times.eml", lambda: forwarded(2_000))
    yield either("mail-in-mail-60-deep.eml", lambda: carrying(60))
    yield either("mail-boundary-never-comes.eml", lambda: HEAD + MIXED % "b" + WORDS)
    yield either("mail-boundary-never-ends.eml", lambda: HEAD + MIXED % "b" + PART % "b")
    yield either("mail-boundary-is-empty.eml", lambda: HEAD + MIXED % "" + "--\r\n\r\n" + WORDS)
    yield either(
        "mail-boundary-of-100000-characters.eml",
        (HEAD + MIXED % ("b" * 100_000) + PART % ("b" * 100_000)).encode,
    )
    yield either("mail-one-boundary-for-all.eml", (HEAD + (MIXED % "b" + "--b\r\n") * 500 + "\r\nwater").encode)
    yield either("mail-boundary-lines.eml", lambda: HEAD + MIXED % "b" + "--b\r\n" * 50_000)


def headers() -> Iterator[File]:
    def with_header(header: str) -> bytes:
        return (HEAD + header + "\r\n\r\n" + WORDS).encode("utf-8", "surrogateescape")

    def instead(field: str, value: str) -> bytes:
        lines = [line for line in HEAD.splitlines() if not line.startswith(f"{field}:")]
        return ("\r\n".join([*lines, f"{field}: {value}"]) + "\r\n\r\n" + WORDS).encode("utf-8", "surrogateescape")

    yield ready("mail-header-of-200000-characters.eml", lambda: with_header("X-Long: " + "a" * 200_000))
    yield ready("mail-long-subject.eml", lambda: instead("Subject", "water " * 50_000))
    yield ready("mail-50000-headers.eml", lambda: with_header("\r\n".join(f"X-{n}: a" for n in range(50_000))))
    yield ready("mail-header-folded-100000-times.eml", lambda: with_header("X-Folded: a" + "\r\n a" * 100_000))
    yield ready("mail-subject-of-words-in-code.eml", lambda: instead("Subject", "=?utf-8?q?water?= " * 10_000))
    yield ready(
        "mail-subject-of-broken-code.eml",
        lambda: instead("Subject", "=?x-evil?b?////?= =?utf-8?b?\udcff?= =?utf-8?q?=ff=0a=00?="),
    )
    yield ready(
        "mail-20000-receivers.eml", lambda: instead("To", ", ".join(f"a{n}@example.org" for n in range(20_000)))
    )
    yield ready("mail-comments-in-comments.eml", lambda: instead("From", "(" * 50_000 + "a@example.org"))
    yield ready("mail-quotes-without-an-end.eml", lambda: instead("To", '"' * 50_001 + "<" * 50_000))
    yield ready("mail-groups.eml", lambda: instead("To", "a:" * 5_000 + ";"))
    yield ready("mail-date-is-nonsense.eml", lambda: instead("Date", "Thu, 99 Foo 99999999999 99:99:99 +99999999"))
    yield ready("mail-type-is-nonsense.eml", lambda: with_header('Content-Type: ;;;="/\\; charset=\x00; boundary'))
    yield ready("mail-charset-is-nonsense.eml", lambda: with_header('Content-Type: text/plain; charset="../../x-evil"'))
    yield ready("mail-charset-is-rot13.eml", lambda: with_header('Content-Type: text/plain; charset="rot13"'))
    yield ready(
        "mail-parameters-in-pieces.eml",
        lambda: with_header("Content-Type: text/plain;" + "".join(f" name*{n}*=a;" for n in range(10_000))),
    )
    yield ready("mail-header-without-a-name.eml", lambda: with_header(": a\r\n : b\r\nno colon here"))
    yield either("mail-without-a-body.eml", HEAD.encode)
    yield either("mail-partial.eml", lambda: with_header("Content-Type: message/partial; number=1; total=9; id=a"))
    yield either(
        "mail-outside-body.eml",
        lambda: with_header('Content-Type: message/external-body; access-type=local-file; name="/etc/passwd"'),
    )


def bodies() -> Iterator[File]:
    def encoded(encoding: str, body: str) -> bytes:
        return (HEAD + f"Content-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}").encode()

    yield either("mail-base64-of-nonsense.eml", lambda: encoded("base64", "=A=B=====\x00" * 5_000))
    yield either("mail-base64-without-line-ends.eml", lambda: encoded("base64", "d2F0ZXIg" * 50_000))
    yield either("mail-quoted-nonsense.eml", lambda: encoded("quoted-printable", "=ZZ=0=\r\n=\x00water" * 5_000))
    yield either("mail-uuencoded-nonsense.eml", lambda: encoded("x-uuencode", "begin 999 a\r\n" + "M~~~\r\n" * 5_000))
    yield either("mail-unknown-encoding.eml", lambda: encoded("x-evil", WORDS))
    yield either("mail-encrypted.eml", (
        HEAD + 'Content-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n"
        "--b\r\nContent-Type: application/octet-stream\r\n\r\n"
        "-----BEGIN PGP MESSAGE-----\r\n\r\nhQEMA\r\n-----END PGP MESSAGE-----\r\n--b--"
    ).encode)  # fmt: skip
    yield either(
        "mail-deep-page.eml",
        (HEAD + "Content-Type: text/html\r\n\r\n<p>water</p>" + "<div>" * 100_000).encode,
    )
    yield either(
        "mailbox-of-1500-mails.mbox",
        (f"From ada@example.org Mon Jan  1 10:00:00 2024\n{HEAD}\nwater\n\n" * 1_500).encode,
    )


def attachments() -> Iterator[File]:
    names = (
        '"../../../etc/cron.d/x"', '"/etc/passwd"', '"C:\\\\a.txt"', '"a\x00.txt"', '"' + "n" * 5_000 + '.txt"', '""', "..",
        '"\u202egpj.exe"',
        "=?utf-8?b?Li4vLi4vZXRjL3Bhc3N3ZA==?=", '"con"', '"a\tb\x07.txt"',
    )  # fmt: skip
    part = "--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=%s\r\n\r\nwater\r\n"
    yield ready(
        "mail-evil-attachments.eml",
        (HEAD + MIXED % "b" + PART % "b" + "".join(part % name for name in names) + "--b--").encode,
    )
    yield either(
        "mail-3000-attachments.eml",
        (HEAD + MIXED % "b" + PART % "b" + part % "a.txt" * 3_000 + "--b--").encode,
    )
    tnef = "--b\r\nContent-Type: application/ms-tnef\r\nContent-Disposition: attachment; filename=winmail.dat\r\n\r\n"
    tnef += "\x78\x9f\x3e\x22\r\n"
    yield ready("mail-winmail.eml", lambda: HEAD + MIXED % "b" + PART % "b" + tnef + "--b--")
