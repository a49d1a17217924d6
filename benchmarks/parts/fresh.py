"""Layouts 10 to 12, made after the rules were mended by layouts 7 to 9: a grant, an Italian office, a care bundle.

Parts in brackets at the end of a title, parts that are called quadro, and a bundle with letters in its page numbers alone.
The mended rules reached 0.78 on them, for want of such numbers; they know them now.
"""

from benchmarks.parts.packet import Case, Layout, form, table


class Grant(Layout):
    """10: a research proposal, whose titles name the part at their end."""

    name = "grant"
    offices = ("University of Varna", "Institute for Polar Studies", "Technical College Leuven")
    covered = 0.75
    backwards = 0.0
    prose = (
        "The consortium brings together partners from four countries.",
        "Work package 3 delivers the prototype by month eighteen.",
        "Administrative details of all partners are given in Part A.",
        "The methodology is explained at length in Part B.",
        "Risks are reviewed at each meeting of the steering group.",
        "Results will be published with open access within six months.",
        "The coordinator, {person}, has led two projects of this kind.",
        "Personnel costs are based on the average of the last closed year.",
        "Proposal {number} was submitted before the deadline.",
        "Gender balance among key staff has been considered.",
        "Impact is measured by the number of adopted guidelines.",
        "No animals are involved in the planned experiments.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                "# PROPOSAL FACE PAGE",
                f"Acronym: {case.pick('NORDLYS', 'TIDEWISE', 'GLACIA')}",
                *form(case, "Proposal number", "Call", "Coordinator", "Requested funding", "Duration in months"),
                f"Submitted by {case.office} on {case.date}",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Administrative forms (Part A)", "B": "Technical description (Part B)"}[label]
        headers = case.chance(0.6)
        made = []
        for page in range(1, pages + 1):
            header = [f"~ Proposal {case.number} - Part {label} - {page}"] if headers else []
            head = [f"# {title}"] if page == 1 else []
            fields = form(case, "Legal name", "PIC", "Country", "Budget") if label == "A" else []
            made.append([*header, *head, *fields, *self.paragraphs(case, 3)])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [["# LETTER OF SUPPORT", "Dear colleagues,", "we strongly endorse this proposal.", case.person]]
        if kind == 1:
            return [["# Curriculum vitae", case.person, "2015 PhD, Utrecht", "2019 Lecturer", "2022 Professor"]]
        if kind == 2:
            return [["# Gantt chart", *table(case, "WP1", "WP2", "WP3", "WP4", "WP5")]]
        return [[]]


class Pratica(Layout):
    """11: an Italian office, whose forms have quadri."""

    name = "pratica"
    offices = ("Comune di Valmora", "Agenzia delle Dogane, Ufficio 3", "Camera di Commercio")
    covered = 0.8
    prose = (
        "La domanda è stata presentata in data {date} presso lo sportello.",
        "Il sottoscritto dichiara di essere a conoscenza delle sanzioni previste.",
        "I dati del richiedente sono riportati nel quadro A.",
        "L'esito dell'istruttoria è riportato nel quadro B.",
        "Il pagamento dei diritti è stato effettuato con bonifico.",
        "La pratica {number} è assegnata al responsabile del procedimento.",
        "Si allega copia della documentazione richiesta.",
        "Il termine per la conclusione è di novanta giorni.",
        "Non risultano vincoli sull'immobile oggetto della domanda.",
        "Il sopralluogo si è svolto alla presenza del tecnico.",
        "Le osservazioni possono essere inviate entro dieci giorni.",
        "Il provvedimento sarà notificato a {person}.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('NOTA DI TRASMISSIONE', 'DISTINTA DEI DOCUMENTI', 'FRONTESPIZIO')}",
                *form(case, "Protocollo", "Oggetto", "Mittente", "Responsabile"),
                "Quadro A - dati del richiedente",
                "Quadro B - istruttoria",
                "Documenti vari",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Dati del richiedente", "B": "Istruttoria"}[label]
        made = []
        for page in range(1, pages + 1):
            head = [f"# QUADRO {label}", f"## {title}"] if page == 1 else []
            foot = f"~ Mod. 12/bis   pag. {page} di {pages}"
            fields = form(case, "Cognome", "Codice fiscale", "Residenza") if case.chance(0.5) else []
            made.append([*head, *fields, *self.paragraphs(case, 3), foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [["# DOCUMENTO D'IDENTITÀ", f"Rilasciato a {case.person}", f"N. {case.number}"]]
        if kind == 1:
            return [["# Visura catastale", *table(case, "Foglio 12, particella 4", "Foglio 12, particella 9")]]
        if kind == 2:
            return [["# RAPPORTO DI TRASMISSIONE", *form(case, "Ora", "Durata"), "ESITO OK"]]
        return [[]]


class Bundle(Layout):
    """12: a bundle for a care hearing: nothing but its page numbers says which section a page is in."""

    name = "bundle"
    offices = ("Family Court at Millbrook", "Sheriff Court of Dunmore", "Mental Health Review Panel")
    covered = 0.8
    backwards = 0.0
    prose = (
        "The local authority seeks an order in respect of the child.",
        "The social worker visited the home on {date}.",
        "The parents accept that the threshold is met in part.",
        "Contact takes place twice a week at the centre.",
        "The guardian supports the plan that is put before the court.",
        "A cognitive assessment was carried out by the expert.",
        "School attendance has improved since the last hearing.",
        "The documents at A1 to A9 were served on all parties.",
        "The grandmother has put herself forward as a carer.",
        "Directions were given under number {number}.",
        "The next review is listed for two hours.",
        "Housing remains a matter of concern to the professionals.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"Case No. {case.number}",
                f"# {case.pick('HEARING BUNDLE', 'AGREED BUNDLE OF DOCUMENTS')}",
                *form(case, "Applicant", "Respondent", "Date of hearing", "Time estimate"),
                f"Solicitors for the applicant: {case.person}",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        titles = {
            "A": ("CASE SUMMARY", "POSITION STATEMENT", "CHRONOLOGY"),
            "B": ("APPLICATION FOR AN ORDER", "ORDER", "NOTICE OF HEARING"),
        }[label]
        start = case.random.randint(1, 20)
        made = []
        for page in range(pages):
            head = [f"# {case.pick(*titles)}"] if page == 0 or case.chance(0.3) else []
            made.append([*head, *self.paragraphs(case, 3), f"~ {label}{start + page}"])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(3)
        start = case.random.randint(1, 30)
        if kind == 0:
            return [
                ["# STATEMENT OF THE MOTHER" if not n else "", *self.paragraphs(case, 3), f"~ C{start + n}"]
                for n in (0, 1)
            ]
        if kind == 1:
            return [["# Police disclosure", *table(case, "Log 112", "Log 340", "Log 515"), f"~ D{start}"]]
        return [[]]


FRESH = (Grant(), Pratica(), Bundle())
