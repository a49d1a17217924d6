"""Layouts 13 to 15, made after the last change of the rules, and run to report: a loss adjuster, a lab, a Swedish council."""

from benchmarks.parts.packet import Case, Layout, form, table


class Adjuster(Layout):
    """13: a loss adjuster; tabs in front of the parts, and dossiers in place of parts."""

    name = "adjuster"
    offices = ("Brightwell Loss Adjusters", "Kestrel Claims Bureau", "Anchor Survey Group")
    covered = 0.8
    backwards = 0.0
    prose = (
        "The loss occurred during the night of {date} at the insured premises.",
        "Water entered through the roof light and spread to the lower floor.",
        "Reserve figures are set out in Dossier B.",
        "Photographs were taken from all sides of the building.",
        "The insured, {person}, was interviewed on site.",
        "Stock was valued at cost, less salvage.",
        "Policy conditions appear to have been complied with.",
        "The alarm company has been asked for its records.",
        "Our file {number} remains open pending the forensic report.",
        "A contribution from the landlord's insurer is likely.",
        "Repairs are expected to take four months.",
        "We recommend an interim payment at this stage.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('FILE REMITTANCE', 'Enclosure slip', 'HANDOVER OF FILE')}",
                *form(case, "Insurer", "Our reference", "Your reference", "Handler"),
                "With compliments. Herewith:",
                "- Dossier A, circumstances",
                "- Dossier B, quantum",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Circumstances of the loss", "B": "Quantum"}[label]
        made = []
        for page in range(1, pages + 1):
            head = [f"# DOSSIER {label}", f"## {title}"] if page == 1 else []
            rows = table(case, "Building", "Contents", "Stock", "Loss of profit") if label == "B" else []
            made.append(
                [f"~ {case.office}   {case.number}", *head, *self.paragraphs(case, 2), *rows, f"~ {page} / {pages}"]
            )
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [[f"# Picture {n}", "North elevation"] for n in (1, 2)]
        if kind == 1:
            return [["# ESTIMATE", *table(case, "Roofing", "Drying", "Decoration"), "Total   9,310.00"]]
        if kind == 2:
            return [["# Met Office extract", "Rainfall, mm", *table(case, "Station 12", "Station 19")]]
        return [[]]


class Study(Layout):
    """14: a laboratory's study file: section letters in a box at the foot, as `Section B, p. 3`."""

    name = "study"
    offices = ("Helix Contract Research", "Northlab GmbH", "Institute of Toxicology")
    covered = 0.7
    backwards = 0.0
    prose = (
        "The study was conducted in compliance with good laboratory practice.",
        "Samples were stored at minus twenty degrees until analysis.",
        "The protocol is reproduced in Section A.",
        "Individual values are tabulated in Section B.",
        "No mortality was observed at any dose level.",
        "Recovery was between 94 and 103 percent for all batches.",
        "Deviations were assessed and had no impact on the outcome.",
        "The sponsor's monitor, {person}, visited on {date}.",
        "Study {number} is archived for fifteen years.",
        "Statistical analysis used a two-sided test.",
        "The reference item was supplied with a certificate.",
        "Body weights were recorded once a week.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"# {case.pick('FINAL REPORT', 'STUDY FILE')}",
                f"Study number: {case.number}",
                *form(case, "Sponsor", "Test facility", "Study director", "Completed on"),
                f"Page 1 of {case.random.randint(20, 90)}",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Study protocol", "B": "Results"}[label]
        made = []
        for page in range(1, pages + 1):
            head = [f"# {title}", f"## Section {label}"] if page == 1 else []
            foot = f"~ {case.number}   Section {label}, p. {page}" if case.chance(0.7) else f"~ {case.number}"
            rows = table(case, "Group 1", "Group 2", "Group 3") if label == "B" else []
            made.append([*head, *self.paragraphs(case, 2), *rows, foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [
                ["# Quality assurance statement", "The phases listed were inspected.", *form(case, "Phase", "Date")]
            ]
        if kind == 1:
            return [["# Chromatogram 7", "Retention time, min", "4.21   8.77   12.03"]]
        if kind == 2:
            return [["# CERTIFICATE OF ANALYSIS", *table(case, "Purity", "Water", "Residue")]]
        return [[]]


class Kommun(Layout):
    """15: a Swedish council."""

    name = "kommun"
    offices = ("Vinsta kommun", "Region Mellansund", "Socialnämnden i Alvik")
    covered = 0.8
    backwards = 0.05
    prose = (
        "Ansökan kom in till nämnden den {date}.",
        "Handläggaren har gjort ett hembesök hos {person}.",
        "Uppgifterna om den sökande finns i del A.",
        "Bedömningen redovisas i del B.",
        "Beslutet kan överklagas inom tre veckor.",
        "Ärendet har diarienummer {number}.",
        "Insatsen beviljas till och med årsskiftet.",
        "Kostnaden ryms inom budgeten för året.",
        "Den sökande har tagit del av utredningen.",
        "Läkarintyg har lämnats in.",
        "Inga synpunkter har kommit in från grannarna.",
        "Nämnden sammanträder en gång i månaden.",
    )

    def cover(self, case: Case) -> list[list[str]]:
        return [
            [
                f"## {case.office}",
                f"# {case.pick('Missiv', 'Följebrev', 'FÖRSÄTTSBLAD')}",
                *form(case, "Diarienummer", "Till", "Handläggare", "Datum"),
                "Bifogas: del A, del B samt bilagor",
            ]
        ]

    def part(self, case: Case, label: str, pages: int) -> list[list[str]]:
        title = {"A": "Ansökan", "B": "Utredning och bedömning"}[label]
        style = case.chance(0.5)
        made = []
        for page in range(1, pages + 1):
            head = [f"# Del {label} - {title}"] if page == 1 else []
            foot = f"~ Del {label}   sida {page} ({pages})" if style else f"~ sida {page} ({pages})"
            fields = form(case, "Namn", "Personnummer") if case.chance(0.5) else []
            made.append([*head, *fields, *self.paragraphs(case, 3), foot])
        return made

    def other(self, case: Case) -> list[list[str]]:
        kind = case.random.randrange(4)
        if kind == 0:
            return [[f"# Bilaga {n}", case.pick("Situationsplan", "Läkarintyg", "Fullmakt")] for n in (1, 2)]
        if kind == 1:
            return [["# MOTTAGNINGSBEVIS", "Härmed intygas att handlingarna har tagits emot."]]
        if kind == 2:
            return [["# Protokollsutdrag", "Paragraf 14", "Nämnden beslutar enligt förslaget."]]
        return [[]]


LAST = (Adjuster(), Study(), Kommun())
