"""Layouts 7 to 9, made after the rules were first reported on, to be harder: a permit office, a tender, a Dutch fund.

Their wording follows public application forms, tenders and pension papers: parts with numbers in place of letters, parts
that are called envelopes, page numbers that run through a whole form, titles of attachments that no list foresees. The
first rules reached 0.46 on them. What was changed then is in the method, not in the lists of words; but they are seen now.
"""

from benchmarks.parts.packet import Case, Layout, form, table


class Permit(Layout):
    """7: a permit form in two numbered parts, with one page count through both."""

    name = "permit"
    offices = ("Department of Labour and Immigration", "Work Permit Board", "Agency for Foreign Recruitment")
    covered = 0.8
    backwards = 0.0
    prose = (
        "If a question does not apply to you, write N/A in the space provided.",
        "The employer completes part 2 and forwards the whole form to the applicant.",
        "The applicant completes part 1 and attaches the documentation asked for.",
        "Use a separate sheet where the space is not sufficient.",
        "Processing takes about eight weeks from the day of lodgement.",
        "I understand that a false statement may lead to refusal.",
        "The position was advertised locally for two weeks without result.",
        "{person} first arrived in the country on {date}.",
        "Salary and working hours are as set out in the contract.",
        "The grant of a permit implies no right to further permits.",
        "Dependants are listed with their dates of birth.",
        "The fee for reference {number} has been paid.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('APPLICATION FOR THE GRANT OF A PERMIT', 'Application for residence and work permit')}",
                "FOR OFFICIAL USE ONLY",
                *form(case, "File number", "Date submitted", "Name of applicant", "Name of company", "Fee paid"),
                "Type of application: [ ] new   [ ] renewal   [ ] change of employer",
                "This application contains part 1 (applicant) and part 2 (employer).",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        number = {"A": case.pick("1", "I"), "B": "2"}[label]
        who = {"A": "To be completed by the applicant", "B": "To be completed by the employer"}[label]
        fields = {
            "A": ("Surname", "Given names", "Nationality", "Passport number", "Date of birth", "Marital status"),
            "B": (
                "Name of employer",
                "Trade licence",
                "Position offered",
                "Salary",
                "Contact person",
                "Number of staff",
            ),
        }[label]
        first = 2 if label == "A" else 5
        made = []
        for page in range(pages):
            head = [f"# PART {number}", f"## {who}"] if page == 0 else []
            body = [*form(case, *case.random.sample(fields, 5)), "", *self.paragraphs(case, 2)]
            made.append([*head, *body, f"~ W2 (2020/06)   Page {first + page} of 10"])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(5)
        if kind == 0:
            return [["# POLICE CLEARANCE", f"No convictions are recorded for {case.person}.", f"Issued {case.date}"]]
        if kind == 1:
            return [["# Guidance notes", *self.paragraphs(case, 2)]]
        if kind == 2:
            return [["P<LND<<SPECIMEN<<<<<<<<<<<<<<<<<<<<", f"{case.number}<<<<<<<<<<<<<<02", "# PASSPORT"]]
        if kind == 3:
            return [["# To whom it may concern", f"{case.person} has worked with us since 2015.", "Kind regards"]]
        return [[]]


class Tender(Layout):
    """8: a bid in two envelopes; nothing in the built-in rules knows the word."""

    name = "tender"
    offices = ("Roads Authority", "Ministry of Works, Procurement Unit", "Rift Water Board")
    covered = 0.9
    backwards = 0.0
    prose = (
        "The bidder has carried out works of a similar nature and size.",
        "Prices are firm for ninety days from the closing date.",
        "The methodology is based on two crews working in parallel.",
        "Envelope B is opened only if envelope A passes the evaluation.",
        "A site visit took place on {date} with the engineer present.",
        "Key staff are named together with their qualifications.",
        "Value added tax is shown separately in the summary.",
        "The programme of works covers eleven months.",
        "Bid security in the form of a bank guarantee is provided.",
        "Tender number {number} shall be quoted in all correspondence.",
        "Subcontractors are limited to one third of the value.",
        "Unit rates include transport, tools and overheads.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('BID SUBMISSION', 'TENDER SUBMISSION SHEET', 'SUBMISSION OF TENDER')}",
                *form(case, "Tender no.", "Bidder", "Closing date", "Method of submission"),
                "Envelope A: technical proposal   1 original, 2 copies",
                "Envelope B: financial proposal   1 original",
                "DO NOT OPEN BEFORE THE CLOSING DATE",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "TECHNICAL PROPOSAL", "B": "FINANCIAL PROPOSAL"}[label]
        made = []
        for page in range(1, pages + 1):
            head = [f"# ENVELOPE {label}", f"## {title}"] if page == 1 else []
            rows = table(case, "Excavation m3", "Concrete C25", "Reinforcement", "Day works") if label == "B" else []
            made.append([*head, *self.paragraphs(case, 2), *rows, f"~ Envelope {label} - sheet {page} of {pages}"])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [
                ["# NON-COLLUSION DECLARATION", "We have not communicated our price to any other bidder.", "Signed"]
            ]
        if kind == 1:
            return [["# Company profile", "Founded in 1987", *table(case, "Turnover 2021", "Turnover 2022")]]
        if kind == 2:
            return [["DRAWING NO. 12/4", "SCALE 1:200", "LONGITUDINAL SECTION", "REV C"]]
        return [[]]


class Pensioen(Layout):
    """9: a Dutch pension fund, with a letter in front."""

    name = "pensioen"
    offices = ("Pensioenfonds Waterland", "Stichting Pensioen Haven", "Pensioenbureau Oost")
    covered = 0.75
    prose = (
        "Uw aanvraag is op {date} door ons ontvangen.",
        "De deelnemer heeft recht op ouderdomspensioen vanaf de eerste van de maand.",
        "De gegevens van de aanvrager staan in deel A.",
        "Het oordeel van de arts staat in deel B.",
        "Stuur geen originele documenten mee.",
        "Bij vragen kunt u contact opnemen met onze afdeling.",
        "Het dossiernummer is {number}.",
        "De uitkering wordt maandelijks overgemaakt.",
        "De belastbaarheid is vastgesteld tijdens het spreekuur.",
        "Er zijn geen aanwijzingen voor een tijdelijke beperking.",
        "Wijzigingen geeft u binnen vier weken door.",
        "De werkgever heeft de loongegevens bevestigd.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                case.date,
                "Betreft: aanvraag arbeidsongeschiktheidspensioen",
                f"# {case.pick('Aanbiedingsbrief', 'Geleidebrief', 'Begeleidend schrijven')}",
                "Geachte heer, mevrouw,",
                "Hierbij zenden wij u het dossier, bestaande uit deel A, deel B en bijlagen.",
                "",
                "Met vriendelijke groet,",
                case.person,
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Gegevens van de aanvrager", "B": "Medische beoordeling"}[label]
        style = case.random.randrange(2)
        made = []
        for page in range(1, pages + 1):
            head = [f"# Deel {label}: {title}" if style else f"# DEEL {label}", f"## {title}"] if page == 1 else []
            foot = f"~ Deel {label}, blad {page} van {pages}" if style else f"~ blad {page}"
            made.append([*head, *form(case, "Naam", "Geboortedatum", "BSN"), *self.paragraphs(case, 2), foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [[f"# Bijlage {n}", case.pick("Loonstrook", "Jaaropgave", "Machtiging")] for n in (1, 2)]
        if kind == 1:
            return [["# VERZENDRAPPORT", *form(case, "Nummer", "Tijd", "Pagina's"), "Resultaat OK"]]
        if kind == 2:
            return [["# Loonstrook", *table(case, "Bruto loon", "Loonheffing", "Netto loon")]]
        return [[]]

    def between(self, case: Case) -> list[list[str]]:
        return [["# SCHEIDINGSBLAD"]] if case.chance(0.3) else super().between(case)


STRANGE = (Permit(), Tender(), Pensioen())
