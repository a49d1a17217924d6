"""Mails: who, when, what; and attachments as members."""

import email.policy
import io
from email.message import EmailMessage
from typing import Any

import pytest

from penstock.errors import Encrypted, Suspicious
from penstock.extraction.archive import members
from tests.extraction import sample_files
from tests.extraction.sent_files import SentFiles


def mail(**fields: str) -> EmailMessage:
    message = EmailMessage(policy=email.policy.SMTP)
    for name, value in (
        {"From": "Ada <ada@example.com>", "To": "bob@example.com", "Subject": "Pumps"} | fields
    ).items():
        message[name] = value
    return message


def sent(message: EmailMessage) -> tuple[SentFiles, dict[str, Any]]:
    parts = SentFiles()
    told = members(io.BytesIO(message.as_bytes()), sample_files.arguments() | {"media_type": "message/rfc822"}, parts)
    return parts, told


def test_a_mail_begins_with_who_and_when() -> None:
    message = mail(Subject="Prüfung der Pumpen 泵", Date="Mon, 01 Jan 2024 10:00:00 +0000")
    message.set_content("Schöne Grüße\n")
    reading = sample_files.read(message.as_bytes())
    assert reading.media_type == "message/rfc822" and reading.title == "Prüfung der Pumpen 泵"
    assert sample_files.text_of(reading) == (
        "Subject: Prüfung der Pumpen 泵\nFrom: Ada <ada@example.com>\nTo: bob@example.com\n"
        "Date: Mon, 01 Jan 2024 10:00:00 +0000\n\nSchöne Grüße"
    )
    assert reading.facts["from"] == "Ada <ada@example.com>" and reading.facts["members"] == "0"


def test_of_two_forms_the_plain_one_is_read() -> None:
    message = mail()
    message.set_content("plain words")
    message.add_alternative("<p>HTML words</p>", subtype="html")
    text = sample_files.text_of(sample_files.read(message.as_bytes()))
    assert "plain words" in text and "HTML" not in text


def test_the_html_form_is_read_when_the_plain_one_says_nothing() -> None:
    message = mail()
    message.set_content(" \n")
    message.add_alternative("<h1>Offer</h1><p>HTML words</p>", subtype="html")
    [page] = sample_files.read(message.as_bytes()).pages
    assert page.text.endswith("Offer\n\nHTML words")
    assert page.text[page.headings[0].start :].startswith("Offer")


def test_attachments_are_members() -> None:
    inner = mail(Subject="Old news")
    inner.set_content("inside")
    message = mail()
    message.set_content("see attached")
    message.add_attachment(b"%PDF-1.4 ...", maintype="application", subtype="pdf", filename="Bericht März.pdf")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="../../etc/stock.csv")
    message.add_attachment(b"\x89PNG....", maintype="image", subtype="png")
    message.add_attachment(inner)
    assert sample_files.read(message.as_bytes()).facts["members"] == "4"
    parts, told = sent(message)
    assert told == {"members": 4, "gaps": []}
    assert list(parts.files) == ["Bericht März.pdf", "etc/stock.csv", "attachment 3.png", "Old news.eml"]
    assert parts.files["Bericht März.pdf"] == b"%PDF-1.4 ..."
    assert b"inside" in parts.files["Old news.eml"]


def test_small_pictures_in_the_text_are_no_attachments() -> None:
    message = mail()
    message.set_content("<p>Hi <img src='cid:logo'></p>", subtype="html")
    message.add_related(b"\x89PNG" + bytes(500), "image", "png", cid="<logo>", disposition="inline")
    message.add_related(
        b"\x89PNG" + bytes(50_000), "image", "png", cid="<shot>", filename="screen.png", disposition="inline"
    )
    assert list(sent(message)[0].files) == ["screen.png"]


def test_a_mail_of_attachments_says_so() -> None:
    message = mail()
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="a.pdf")
    reading = sample_files.read(message.as_bytes())
    assert reading.gaps[0].reason == "the message has no text, only attachments"


@pytest.mark.parametrize(
    "kind", ["application/pkcs7-mime; smime-type=enveloped-data", "multipart/encrypted; boundary=x"]
)
def test_sealed_mails_are_encrypted(kind: str) -> None:
    raw = f"From: a@b.c\r\nTo: d@e.f\r\nSubject: s\r\nMIME-Version: 1.0\r\nContent-Type: {kind}\r\n\r\nxxx\r\n"
    with pytest.raises(Encrypted, match="key"):
        sample_files.read(raw.encode())


def test_broken_headers_and_bodies_are_read_as_far_as_they_go() -> None:
    raw = (
        b"From: =?no-such-charset?B?w6Q=?= <a@b.c>\r\nTo: \xff\xfe\r\nSubject: =?utf-8?Q?broken=ZZ?= =?utf-8?B?w?=\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=nonsense\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        b"SGVsbG8gd29ybGQ\r\n"
    )
    assert "Hello world" in sample_files.text_of(sample_files.read(raw))


def test_a_multipart_without_its_end_is_read() -> None:
    raw = (
        b"From: a@b.c\r\nTo: d@e.f\r\nSubject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=X\r\n\r\n"
        b"--X\r\nContent-Type: text/plain\r\n\r\nfirst part\r\n--X\r\nContent-Type: text/html\r\n\r\n<p>second"
    )
    text = sample_files.text_of(sample_files.read(raw))
    assert "first part" in text and "second" in text


@pytest.mark.parametrize("depth", [60, 5_000])
def test_endless_nesting_is_suspicious(depth: int) -> None:
    raw = "From: a@b.c\r\nTo: d@e.f\r\nSubject: s\r\nMIME-Version: 1.0\r\n"
    raw += "".join(f"Content-Type: multipart/mixed; boundary=B{n}\r\n\r\n--B{n}\r\n" for n in range(depth))
    with pytest.raises(Suspicious, match="nest"):
        sample_files.read(raw.encode())


def test_outlook_messages_have_text_and_members() -> None:
    raw = sample_files.compound(
        {
            "__properties_version1.0": bytes(32) + b"\x03\0\xfd\x3f\0\0\0\0\xe3\x04\0\0\0\0\0\0",  # code page 1251
            "__substg1.0_0037001F": "Pumpen 泵".encode("utf-16-le"),
            "__substg1.0_0C1A001E": "Ада".encode("cp1251"),
            "__substg1.0_1000001F": "Der Text\r\nder Mail".encode("utf-16-le"),
            "__attach_version1.0_#00000000/__substg1.0_3707001F": "stock.csv".encode("utf-16-le"),
            "__attach_version1.0_#00000000/__substg1.0_37010102": b"a,b\n",
            "__attach_version1.0_#00000001/__substg1.0_3001001F": "Object".encode("utf-16-le"),
        }
    )
    reading = sample_files.read(raw)
    assert sample_files.text_of(reading) == "Subject: Pumpen 泵\nFrom: Ада\n\nDer Text\nder Mail"
    assert reading.facts["members"] == "2"
    parts = SentFiles()
    told = members(io.BytesIO(raw), sample_files.arguments() | {"media_type": "application/vnd.ms-outlook"}, parts)
    assert parts.files == {"stock.csv": b"a,b\n"}
    assert told["members"] == 1 and "not a file" in told["gaps"][0]["reason"]


def test_a_sealed_outlook_message_is_encrypted() -> None:
    sealed = "__attach_version1.0_#00000000/__substg1.0_"
    raw = sample_files.compound(
        {
            "__properties_version1.0": bytes(32),
            sealed + "3707001F": "smime.p7m".encode("utf-16-le"),
            sealed + "37010102": b"xxxx",
            "__substg1.0_1013001F": "<html></html>".encode("utf-16-le"),
        }
    )
    with pytest.raises(Encrypted, match="key"):
        sample_files.read(raw)


def test_a_header_of_megabytes_is_cut() -> None:
    raw = b"From: a@b.c\r\nTo: d@e.f\r\nSubject: " + b"=?utf-8?q?a?= " * 100_000 + b"\r\n\r\nhi\r\n"
    assert sample_files.text_of(sample_files.read(raw)).endswith("hi")


@pytest.mark.parametrize("kind", ["text/plain", "message/rfc822", "application/pdf"])
def test_a_zero_in_the_name_of_an_encoding_is_no_trouble(kind: str) -> None:
    raw = (
        "From: a@b.c\r\nTo: d@e.f\r\nSubject: s\r\nContent-Type: multipart/mixed; boundary=X\r\n\r\n--X\r\n"
        f'Content-Type: {kind}; charset="a\0b"\r\n\r\nwörds\r\n--X--\r\n'
    )
    sample_files.read(raw.encode())
