"""Layouts 1 to 3, by which the built-in rules were written: an insurer, a German authority, an auditor."""

from benchmarks.parts.packet import Case, Layout, form, table


class Claims(Layout):
    """1: an insurer's claim forms, with running headers and a cover sheet that lists the parts."""

    name = "claims"
    offices = ("Northgate Mutual Insurance", "Harbour Life Assurance", "Prairie Benefit Trust")
    prose = (
        "The claimant was admitted on {date} and has been unable to work since.",
        "Benefits are payable from the first day after the waiting period.",
        "I declare that the statements above are true to the best of my knowledge.",
        "Please attach copies of all receipts; originals are not returned.",
        "The attending physician completes Part B and returns it to {office}.",
        "As stated in Part A, the accident took place at the place of employment.",
        "The policy {number} was in force at the time of the event.",
        "Symptoms first appeared about two weeks before the consultation.",
        "No other insurer has been notified of this claim.",
        "The patient may resume light duties after six weeks.",
        "Authorisation is hereby given to release medical records to {office}.",
        "Payments are made by cheque to {person} unless told otherwise.",
        "A follow-up examination is recommended in three months.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        if case.chance(0.4):
            return [
                [
                    f"## {case.office}",
                    "# FAX COVER SHEET",
                    *form(case, "To", "From", "Fax", "Date", "Re"),
                    f"Number of pages including this cover sheet: {case.random.randint(5, 15)}",
                    "",
                    "Enclosed: Part A (claimant's statement), Part B (physician's statement)",
                    "~ CONFIDENTIAL: this fax is intended for the addressee only.",
                ]
            ]
        return [
            [
                f"## {case.office}",
                f"# {case.pick('CLAIM SUBMISSION', 'DISABILITY CLAIM', 'CLAIM DOCUMENTS')} - COVER SHEET",
                *form(case, "Claimant", "Policy number", "Date of submission", "Received by"),
                "",
                "## Documents in this package",
                "[x] Part A - Claimant's statement",
                "[x] Part B - Attending physician's statement",
                "[ ] Receipts and other attachments",
                "~ For office use only",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        titles = {"A": "CLAIMANT'S STATEMENT", "B": "ATTENDING PHYSICIAN'S STATEMENT"}
        fields = {
            "A": ("Full name", "Address", "Employer", "Occupation", "Date of accident", "Telephone"),
            "B": ("Diagnosis", "Date of first visit", "Treatment", "ICD code", "Prognosis", "Hospital"),
        }
        made = []
        for page in range(1, pages + 1):
            header = [f"~ {case.office}   Claim {case.number}   Part {label} - page {page} of {pages}"]
            title = [f"# PART {label} - {titles[label]}"] if page == 1 else []
            body = form(case, *fields[label]) if page == 1 or case.chance(0.4) else self.paragraphs(case, 2)
            made.append([*header, *title, *body, "", *self.paragraphs(case, 1)])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [
                [
                    "# TRANSMISSION VERIFICATION REPORT",
                    *form(case, "TIME", "NAME", "FAX", "TEL"),
                    "DATE, TIME   FAX NO./NAME   DURATION   PAGE(S)   RESULT   MODE",
                    f"{case.date}   00:0{case.random.randint(1, 9)}:12   08   OK   STANDARD",
                ]
            ]
        if kind == 1:
            return [
                [
                    f"## {case.pick('Mercy Pharmacy', 'City Physiotherapy', 'Medical Supplies Ltd')}",
                    f"# {case.pick('INVOICE', 'RECEIPT')}",
                    *form(case, "Invoice no.", "Date", "Customer"),
                    *table(case, "Consultation", "Bandage", "Physiotherapy, 30 min", "Medication"),
                    "TOTAL   214.50",
                    "Thank you",
                ]
            ]
        if kind == 2:
            return [
                [
                    f"# ATTACHMENT {n}",
                    case.pick("Photograph of the vehicle", "Copy of driver's licence", "Police report"),
                ]
                for n in range(1, case.random.randint(2, 3))
            ]
        return [[]]

    def between(self, case: Case) -> list[list[str]]:
        return [["~ This page intentionally left blank"]] if case.chance(0.4) else super().between(case)


class Antrag(Layout):
    """2: a German authority, whose parts have a title on their first page and numbered headings after it."""

    name = "antrag"
    offices = ("Landesamt für Umwelt", "Bezirksregierung Nord", "Stadt Althausen, Bauamt")
    covered = 0.75
    prose = (
        "Der Antrag wurde am {date} vollständig eingereicht.",
        "Die Unterlagen liegen der Behörde unter dem Aktenzeichen {number} vor.",
        "Eine Verlängerung der Frist ist nur auf schriftlichen Antrag möglich.",
        "Die Angaben zum Betrieb sind in Teil A enthalten.",
        "Das Ergebnis der Prüfung ist in Teil B dargestellt.",
        "Gegen diesen Bescheid kann innerhalb eines Monats Widerspruch erhoben werden.",
        "Die Fläche des Grundstücks beträgt 1.240 Quadratmeter.",
        "Antragsteller ist {person}, vertreten durch ein Planungsbüro.",
        "Die Messung erfolgte nach den anerkannten Regeln der Technik.",
        "Bedenken wurden von den beteiligten Stellen nicht vorgetragen.",
        "Der Betrieb ist werktags von 6 bis 22 Uhr vorgesehen.",
        "Die Kosten des Verfahrens trägt der Antragsteller.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('DECKBLATT', 'Deckblatt zum Antrag', 'Aktendeckblatt')}",
                *form(case, "Aktenzeichen", "Antragsteller", "Eingang", "Sachbearbeitung"),
                "",
                "Inhalt der Sendung:",
                "Teil A   Antragsdaten",
                "Teil B   Prüfbericht",
                "Anlagen   nach Verzeichnis",
            ]
        ]

    def after_cover(self, case: Case) -> list[list[str]]:
        if not case.chance(0.4):
            return []
        return [
            [
                "# Inhaltsverzeichnis",
                "Teil A Antragsdaten ........ 3",
                "A.1 Angaben zur Person ........ 3",
                "A.2 Angaben zum Vorhaben ........ 4",
                "Teil B Prüfbericht ........ 6",
                "B.1 Grundlagen ........ 6",
                "B.2 Ergebnis ........ 8",
                "Anlagen ........ 10",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Antragsdaten", "B": "Prüfbericht"}[label]
        heads = {
            "A": ("Angaben zur Person", "Angaben zum Vorhaben", "Standort", "Betriebszeiten"),
            "B": ("Grundlagen", "Durchführung", "Ergebnis", "Empfehlung"),
        }[label]
        made = []
        for page in range(pages):
            first = [f"# {case.pick('Teil', 'TEIL')} {label}", f"## {title}"] if page == 0 else []
            head = [f"## {label}.{page + 1} {heads[page % 4]}"] if page == 0 or case.chance(0.6) else []
            made.append([*first, *head, *self.paragraphs(case, 3), f"~ - {page + 1} -"])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [["# SENDEBERICHT", *form(case, "Datum", "Empfänger", "Seiten", "Dauer"), "ERGEBNIS   OK"]]
        if kind == 1:
            return [
                [
                    f"# Anlage {n}",
                    case.pick("Lageplan im Maßstab 1:500", "Auszug aus dem Liegenschaftskataster", "Vollmacht"),
                    *table(case, "Flur 3, Flurstück 12", "Flur 3, Flurstück 14"),
                ]
                for n in range(1, case.random.randint(2, 4))
            ]
        if kind == 2:
            return [
                ["# Empfangsbestätigung", "Hiermit wird der Eingang der Unterlagen bestätigt.", f"Datum: {case.date}"]
            ]
        return [[]]


class Audit(Layout):
    """3: an auditor's report behind a letter; small footers name the section, and half of the pages have none."""

    name = "audit"
    offices = ("Caldwell & Firth LLP", "Meridian Assurance Partners", "Internal Audit Office")
    covered = 0.8
    prose = (
        "Our procedures were performed between March and {date}.",
        "Management agreed with the observation and named a responsible person.",
        "Three of twenty-five sampled payments had no second signature.",
        "We refer to Section B for the detailed findings.",
        "The scope is described in Section A of this report.",
        "Access rights of former employees were removed late in four cases.",
        "The reconciliation of the ledger was prepared but not reviewed.",
        "Nothing came to our attention that would indicate misstatement.",
        "Materiality was set at one percent of total expenditure.",
        "Inventory counts were attended at two of the five warehouses.",
        "The engagement {number} was approved by the audit committee.",
        "Prior-year recommendations were implemented with one exception.",
        "This report is intended solely for the board of the entity.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                case.date,
                f"To: {case.pick('The Audit Committee', 'The Board of Directors', 'The Chief Executive')}",
                f"# {case.pick('LETTER OF TRANSMITTAL', 'Transmittal letter', 'Letter of transmittal')}",
                f"Dear {case.pick('Members', 'Sir or Madam', 'Chair')},",
                "We are pleased to submit the enclosed documents for your attention:",
                "Section A, scope and approach, and Section B, findings.",
                "Supporting schedules are attached as appendices.",
                "",
                case.pick("Yours faithfully,", "Yours sincerely,", "Respectfully submitted,"),
                case.person,
                "Enclosures",
            ]
        ]

    def after_cover(self, case: Case) -> list[list[str]]:
        if not case.chance(0.4):
            return []
        return [
            [
                "# TABLE OF CONTENTS",
                "Section A: Scope and approach 3",
                "Section B: Findings 5",
                "Appendix 1: Schedules 9",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Scope and approach", "B": "Findings"}[label]
        footers = case.chance(0.6)
        made = []
        for page in range(1, pages + 1):
            first = [f"# {case.pick('SECTION', 'Section')} {label}: {title}"] if page == 1 else []
            rows = table(case, "Payments tested", "Exceptions", "Locations visited") if case.chance(0.4) else []
            foot = [f"~ Section {label} / {page}"] if footers else [f"~ {page}"]
            made.append([*first, *self.paragraphs(case, 2), *rows, *foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(3)
        if kind == 0:
            return [
                [
                    f"# {case.pick('APPENDIX', 'Appendix')} {n}",
                    "## Supporting schedule",
                    *table(case, "Trade receivables", "Payables", "Cash at bank", "Inventory"),
                ]
                for n in range(1, case.random.randint(2, 4))
            ]
        if kind == 1:
            return [
                [
                    "# Acknowledgement of receipt",
                    "We confirm that the documents listed were received in good order.",
                    *form(case, "Name", "Date", "Signature"),
                ]
            ]
        return [[]]

    def between(self, case: Case) -> list[list[str]]:
        return [["# SEPARATOR SHEET", "Do not remove"]] if case.chance(0.4) else super().between(case)


SEEN = (Claims(), Antrag(), Audit())
