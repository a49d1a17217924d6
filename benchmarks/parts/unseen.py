"""Layouts 4 to 6, which the built-in rules were not written by: a clinic, a French-speaking town hall, a tribunal.

They are run to report, not to tune. Whoever changes the rules after a look at these misses needs new layouts to report on.
"""

from benchmarks.parts.packet import Case, Layout, form, table


class Clinic(Layout):
    """4: referrals between hospitals by fax: forms with a code in a corner, and hardly any prose."""

    name = "clinic"
    offices = ("St. Brigid's Hospital", "Lakeside Oncology Clinic", "County Rehabilitation Centre")
    covered = 0.85
    prose = (
        "Patient was seen in the outpatient department on {date}.",
        "Blood pressure 138/84, pulse regular, no oedema.",
        "Referral is made for assessment and further management.",
        "Current medication is listed on form A-1.",
        "For consultant's opinion see form B-1.",
        "Family history is unremarkable, no known allergies.",
        "MRI of the lumbar spine shows degenerative change at L4/L5.",
        "Suggest conservative treatment and review in eight weeks.",
        "The ward round decided on discharge with physiotherapy.",
        "Consent was obtained from {person} and filed under {number}.",
        "Please contact the ward clerk to arrange transport.",
        "Wound healing is satisfactory; sutures removed on day ten.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"# {case.pick('FACSIMILE TRANSMITTAL', 'FACSIMILE', 'TELEFAX TRANSMISSION')}",
                f"## {case.office}",
                *form(case, "TO", "ATTN", "FROM", "PHONE", "SUBJECT"),
                f"TOTAL PAGES (INCL. THIS ONE): {case.random.randint(4, 12)}",
                "[ ] URGENT   [ ] FOR REVIEW   [ ] PLEASE REPLY",
                "Message: please find form A (referral) and form B (consultant's reply).",
                "~ If you have received this transmission in error, notify the sender and destroy all copies.",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Referral and history", "B": "Consultant's reply"}[label]
        fields = {
            "A": ("Surname", "Hospital no.", "GP", "Reason for referral", "Allergies", "Next of kin"),
            "B": ("Consultant", "Examination", "Impression", "Plan", "Follow-up", "Bleep"),
        }[label]
        corner = case.chance(0.5)
        made = []
        for page in range(1, pages + 1):
            code = f"~ Form {label}-{page}  rev. {case.random.randint(2, 9)}/19"
            head = (
                [f"# FORM {label}", f"## {title}"] if page == 1 else [f"## {title} (cont.)"] if case.chance(0.5) else []
            )
            body = [*form(case, *case.random.sample(fields, 4)), "", *self.paragraphs(case, 2)]
            made.append([code, *head, *body] if corner else [*head, *body, code])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(5)
        if kind == 0:
            return [
                [
                    "# LABORATORY RESULTS",
                    *form(case, "Specimen", "Collected", "Requested by"),
                    *table(case, "Haemoglobin g/dL", "Leucocytes", "Creatinine", "CRP mg/L", "Sodium"),
                    "H = above range, L = below range",
                ]
            ]
        if kind == 1:
            return [["# TX RESULT REPORT", f"JOB NO. {case.random.randint(100, 999)}", "SENT 0012 PAGES", "RESULT: OK"]]
        if kind == 2:
            return [["# Copy of insurance card", f"Holder: {case.person}", f"No. {case.number}"]]
        if kind == 3:
            return [
                [
                    "# Medication administration record",
                    *table(case, "Paracetamol 1 g", "Enoxaparin 40 mg", "Omeprazole"),
                ]
            ]
        return [[]]

    def between(self, case: Case) -> list[list[str]]:
        return [["# * * * DOCUMENT BREAK * * *"]] if case.chance(0.25) else super().between(case)


class Mairie(Layout):
    """5: a town hall that writes French and, for its neighbours, Spanish."""

    name = "mairie"
    offices = ("Mairie de Saint-Aubin", "Préfecture du Val", "Ayuntamiento de Peñalba")
    covered = 0.8
    backwards = 0.0
    prose = (
        "Le dossier {number} a été déposé au guichet unique le {date}.",
        "Le demandeur certifie l'exactitude des renseignements fournis.",
        "Les justificatifs doivent être datés de moins de trois mois.",
        "L'avis du service instructeur figure dans la partie B.",
        "Les renseignements de la partie A sont confidentiels.",
        "La commission se réunit le premier mardi de chaque mois.",
        "Le montant de l'aide est versé en une seule fois.",
        "Toute fausse déclaration est passible de poursuites.",
        "Une visite des lieux a été effectuée en présence de {person}.",
        "Les travaux ne peuvent commencer avant la notification.",
        "Le plan de financement est équilibré sur trois exercices.",
        "Aucune observation n'a été inscrite au registre.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        if case.office.startswith("Ayun"):
            return [
                [
                    f"## {case.office}",
                    "# CARÁTULA DEL EXPEDIENTE",
                    *form(case, "Expediente", "Interesado", "Fecha", "Unidad"),
                    "Contenido: Parte A (solicitud), Parte B (informe), anexos",
                ]
            ]
        return [
            [
                f"## {case.office}",
                f"# {case.pick('BORDEREAU D’ENVOI', 'BORDEREAU DE TRANSMISSION', 'PAGE DE GARDE')}",
                *form(case, "Destinataire", "Dossier suivi par", "Référence", "Date"),
                "Désignation des pièces   Nombre   Observations",
                "Partie A : demande   1   pour attribution",
                "Partie B : instruction   1   pour avis",
                "Annexes   3   pour information",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        spanish = case.office.startswith("Ayun")
        word = "Parte" if spanish else case.pick("Partie", "Volet")
        title = (
            {"A": "Datos de la solicitud", "B": "Informe técnico"}
            if spanish
            else {"A": "La demande", "B": "Instruction"}
        )
        made = []
        for page in range(1, pages + 1):
            running = f"~ {word} {label} · {page}/{pages}" if case.chance(0.7) else f"~ {page}/{pages}"
            head = [f"# {word.upper()} {label}", f"## {title[label]}"] if page == 1 else []
            fields = form(case, "Nom", "Adresse", "Commune", "Montant") if case.chance(0.4) else []
            made.append([*head, *fields, *self.paragraphs(case, 3), running])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [
                [
                    f"# {case.pick('ANNEXE', 'Pièce jointe n°')} {n}",
                    case.pick("Plan de situation", "Relevé bancaire", "Devis"),
                ]
                for n in range(1, case.random.randint(2, 4))
            ]
        if kind == 1:
            return [["# ACCUSÉ DE RÉCEPTION", f"Reçu le {case.date}", "Cachet et signature"]]
        if kind == 2:
            return [["# RAPPORT D'ÉMISSION", *form(case, "N° appelé", "Durée", "Pages"), "ÉTAT : OK"]]
        return [[]]


class Court(Layout):
    """6: a tribunal's bundle: a filing checklist, lettered headings, exhibits, proofs of service."""

    name = "court"
    offices = ("Employment Tribunal, Region 4", "Office of Administrative Hearings", "Land and Property Chamber")
    covered = 0.7
    backwards = 0.0
    prose = (
        "The appellant, {person}, lodged the notice on {date}.",
        "The respondent denies each and every allegation.",
        "On the evidence before it the tribunal is satisfied of the following.",
        "Paragraphs under heading A set out the background.",
        "The reasons are given under heading B below.",
        "Counsel for the parties agreed a statement of issues.",
        "The hearing was adjourned to allow further disclosure.",
        "Case number {number} was joined with a related appeal.",
        "The witness gave evidence by video link and was cross-examined.",
        "No application for costs was made by either side.",
        "The burden of proof rests upon the party who asserts.",
        "Time limits were extended by consent.",
        "The lease was executed as a deed and duly registered.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('FILING CHECKLIST', 'BUNDLE INDEX AND CHECKLIST', 'FILING COVER PAGE')}",
                *form(case, "Case no.", "Appellant", "Respondent", "Filed by", "Date filed"),
                "[x] A. Statement of case",
                "[x] B. Findings and reasons",
                "[x] Exhibits",
                "[ ] Fee enclosed",
                "~ Clerk's stamp",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": case.pick("STATEMENT OF CASE", "BACKGROUND"), "B": case.pick("FINDINGS", "FINDINGS AND REASONS")}[
            label
        ]
        style = case.random.randrange(3)
        first = (f"# {label}. {title}", f"# SCHEDULE {label} - {title}", f"# {label} - {title}")[style]
        made = []
        for page in range(1, pages + 1):
            head = [first] if page == 1 else []
            points = [f"{label}{page}.{n} {line}" for n, line in enumerate(self.paragraphs(case, 1)[:2], 1)]
            foot = (
                f"~ {case.number}   {label} / {page}" if style != 1 else f"~ Schedule {label}   Page {page} of {pages}"
            )
            made.append([*head, *(points if case.chance(0.6) else []), "", *self.paragraphs(case, 2), foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [
                [
                    f"# EXHIBIT {n}",
                    case.pick("Letter before action", "Tenancy agreement, extract", "Payslip", "E-mail thread"),
                ]
                for n in range(1, case.random.randint(2, 4))
            ]
        if kind == 1:
            return [
                [
                    "# CERTIFICATE OF SERVICE",
                    f"I certify that on {case.date} a true copy was served by first-class post.",
                    *form(case, "Signed", "Name"),
                ]
            ]
        if kind == 2:
            return [["# PROOF OF DELIVERY", *form(case, "Tracking no.", "Delivered to", "Signed by")]]
        return [[]]

    def between(self, case: Case) -> list[list[str]]:
        return [["# DIVIDER", "Tab 2"]] if case.chance(0.3) else super().between(case)


UNSEEN = (Clinic(), Mairie(), Court())
