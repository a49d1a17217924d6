"""What the example documents say: a year in the turbine house of a small water mill, told by its papers."""

MANUAL_TITLE = "Turbine house manual"
MANUAL = [
    """1. The way of the water

The water leaves the mill pond through the intake, where a trash rack
keeps out branches and ice. Behind the rack stands the sluice gate. From
the gate the penstock, a steel pipe of 62 metres, leads down to the
turbine: a Francis runner of 1931 that turns at 300 revolutions per
minute and drives a generator of 45 kilowatts.

The head is 9.4 metres. At full gate the turbine swallows 610 litres of
water each second. When the pond falls below the red mark, close the gate
to one third, or the penstock draws air and the runner is hammered.""",
    """2. Starting and stopping

To start: open the bypass valve and fill the penstock slowly, for at least
ten minutes. A quick filling bursts the pipe at the lower bend; this
happened in 1958. Then open the guide vanes to one tenth, wait until the
generator runs with the grid, and open further.

To stop in an emergency: pull the red lever beside the door. It drops the
sluice gate by its own weight, and needs no electricity. The gate closes
within eight seconds.""",
    """3. Limits

The thrust bearing may become 70 degrees warm. At 80 degrees the alarm
rings, at 90 degrees the turbine stops by itself. Never start it again
before somebody has found out why the bearing ran hot.

Grease: the thrust bearing takes lithium grease, 40 grams every
200 hours. Too much grease is as bad as too little.""",
]

LOG = [
    """MAINTENANCE LOG, SHEET 1

4 January   Trash rack cleaned, ice removed.
19 January  Thrust bearing greased, 40 grams.
2 February  Oil of the governor changed.
23 February A new apprentice greased the
            thrust bearing with 400 grams.
9 March     Bearing at 78 degrees.
            Watched it all night.""",
    """MAINTENANCE LOG, SHEET 2

11 March    Bearing at 91 degrees. Turbine
            stopped by itself at 4:20.
12 March    Opened the bearing. It was full of
            old grease, the cage is broken.
28 March    New bearing fitted.
29 March    Turbine runs again, 52 degrees.""",
]

REPORT_TITLE = "Inspection of the sluice gate"
REPORT = [
    ("Heading1", "Inspection of the sluice gate"),
    ("", "Inspected on 3 May by Ingrid Halvorsen, district engineer, together with the miller."),
    ("Heading2", "What was found"),
    ("", "The gate leaf of oak is sound. Two of the eight bolts of the lower hinge are rusted through."),
    ("", "The emergency lever was pulled three times. The gate fell within seven seconds each time."),
    ("Heading2", "What has to be done"),
    ("", "Replace the two bolts before the autumn rain. Paint the rails. The sluice gate is inspected once a year."),
]

YIELD_TITLE = "Energy yield"
YIELD = [
    ("Month", "Kilowatt hours", "Hours at work", "Remark"),
    ("January", 21400, 702, "ice on four days"),
    ("February", 22950, 655, ""),
    ("March", 8120, 243, "turbine stopped from 11 to 29 March, broken bearing"),
    ("April", 26310, 716, "snow melt"),
    ("May", 25780, 730, ""),
    ("June", 14060, 688, "little water, gate at one third"),
]

PLAN_TITLE = "Plan for a flood"
PLAN = [
    ("Plan for a flood", ["What everybody in the mill does when the river rises", "Hangs beside the red lever"]),
    (
        "When the water reaches the first mark",
        ["Open both weirs", "Lift the trash rack", "Call the saw mill downstream: they need twenty minutes"],
    ),
    (
        "When the water reaches the second mark",
        ["Stop the turbine and drop the sluice gate", "Carry the generator's controls upstairs", "Leave the house"],
    ),
]

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Visit the water mill</title><style>body { font: 16px serif }</style></head>
<body>
<h1>Visit the water mill</h1>
<p>The mill was built in 1742 and ground rye until 1929. Since 1931 its wheel pit holds a <b>Francis turbine</b>,
which lights two hundred homes.</p>
<h2>Opening hours</h2>
<table>
<tr><th>Day</th><th>Open</th><th>Guided tour</th></tr>
<tr><td>Saturday</td><td>10 to 17</td><td>11 and 15</td></tr>
<tr><td>Sunday</td><td>11 to 16</td><td>14</td></tr>
</table>
<p>Children see the fish ladder, where eels and trout pass the weir. Dogs stay outside of the turbine house.</p>
</body>
</html>
"""

MAIL = """Dear Ms Halvorsen,

the turbine has stood still since the night of 11 March. The thrust bearing ran hot because it had been given ten
times the right amount of grease; the cage broke. The offer of the bearing works is attached. With your agreement I
order today, then we lose eighteen days of energy instead of thirty.

Yours sincerely,
Tomas Brandt, miller
"""
OFFER = """Offer 2207 of the Aldersund bearing works

1 spherical roller thrust bearing, bore 120 mm ......... 1,480 crowns
1 set of seals ........................................... 95 crowns
Express delivery by boat, 14 days ....................... 210 crowns

The offer holds until 20 March.
"""

NOTES = """# Notes for my successor

## The fish ladder
Open it fully from September to November, when the trout climb. The fishery board counts them on Tuesdays.

## The neighbours
The saw mill downstream must be warned before you open the weirs: its yard is flooded first.

## What I would do differently
Teach every apprentice how little grease a bearing needs. Eighteen days without current cost us more than a new
trash rack would have.
"""

POLICY = "Insurance of the turbine house, policy 88-1931. Nobody reads this without the password."
