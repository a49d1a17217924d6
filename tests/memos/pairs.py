"""Twenty pairs of memos as people would judge them: an older one, a newer one, and how the newer one is to the older.

Written before the threshold was chosen, as they come out of meetings, support and planning; `different` are those that are
easily mistaken for the others: the same people or things, and something else about them.
"""

from typing import NamedTuple


class Labelled(NamedTuple):
    """A pair with its verdict."""

    older: str
    newer: str
    verdict: str


PAIRS = [
    Labelled("The sluice gate is made of oak.", "The gate of the sluice consists of oak wood.", "same"),
    Labelled("Ann prefers to be called in the morning.", "Ann likes phone calls best before noon.", "same"),
    Labelled("The team decided to use PostgreSQL for the queue.", "PostgreSQL was chosen as the job queue.", "same"),
    Labelled("The invoice 4711 is due on 30 November 2026.", "Invoice 4711 must be paid by 2026-11-30.", "same"),
    Labelled("Bob is allergic to peanuts.", "Bob cannot eat peanuts because of an allergy.", "same"),
    Labelled(
        "The customer wants the report as a PDF.", "The report shall be delivered to the customer as PDF.", "same"
    ),
    Labelled("The office in Porto is closed on Fridays.", "On Fridays the Porto office does not open.", "same"),
    Labelled("The sluice gate is made of oak.", "The sluice gate is made of steel since the repair.", "contradicts"),
    Labelled("The release is planned for 3 March 2027.", "The release was moved to 17 March 2027.", "contradicts"),
    Labelled("Ann lives in Hamburg.", "Ann has moved to Vienna and lives there now.", "contradicts"),
    Labelled(
        "Bob leads the turbine project.",
        "Carla has taken over the lead of the turbine project from Bob.",
        "contradicts",
    ),
    Labelled(
        "The budget for the weir is 20,000 euros.", "The budget of the weir was raised to 35,000 euros.", "contradicts"
    ),
    Labelled("The team uses RabbitMQ for events.", "The team no longer uses RabbitMQ for events.", "contradicts"),
    Labelled(
        "The weekly meeting is on Tuesday at 10:00.", "The weekly meeting is on Thursday at 14:00 now.", "contradicts"
    ),
    Labelled("The sluice gate is made of oak.", "The sluice gate was painted green in May.", "different"),
    Labelled("Ann prefers to be called in the morning.", "Ann prefers tea to coffee.", "different"),
    Labelled(
        "The invoice 4711 is due on 30 November 2026.", "The invoice 4712 is due on 30 November 2026.", "different"
    ),
    Labelled("Bob leads the turbine project.", "Bob wrote the manual of the turbine.", "different"),
    Labelled("The office in Porto is closed on Fridays.", "The office in Lisbon has 40 desks.", "different"),
    Labelled("The customer wants the report as a PDF.", "The customer has paid the last report.", "different"),
]
