"""How many connections a worker holds while a thousand handlers sleep."""

import os

from benchmarks.measures import arenas
from benchmarks.report import Row
from benchmarks.stage import Arena, SideFailed, Stage

COUNT = 1000


async def measure(stage: Stage) -> list[Row]:
    sides = await arenas(stage, ["penstock", *stage.scale.peers])
    rows = [
        (await _connections(side, side.label)).judged("≤ 5", lambda value: value <= 5) for side in [sides["penstock"]]
    ]
    os.environ["PENSTOCK_POOL__SIZE"] = "2"
    try:
        rows.append(await _connections(sides["penstock"], "Penstock, pool.size 2"))
    finally:
        del os.environ["PENSTOCK_POOL__SIZE"]
    rows[1].judged("≤ 5", lambda value: value <= 5)
    rows += [await _connections(sides[name], sides[name].label) for name in stage.scale.peers]
    return rows


async def _connections(side: Arena, label: str) -> Row:
    name = f"connections, {COUNT:,} asleep"
    try:
        await side.empty()
        answer = await side.run("asleep", count=COUNT)
    except SideFailed as failure:
        return Row(name, label, "", [], failure=str(failure))
    names = answer["names"]
    note = ", ".join(f"{names.count(each)} {each or 'unnamed'}" for each in dict.fromkeys(names))
    if answer["entered"] < COUNT:
        note += f"; only {answer['entered']:,} handlers ran at once"
    return Row(name, label, "connections", [answer["connections"]], note=note)
