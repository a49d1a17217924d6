"""What a worker without work costs: heartbeats, rescue, promotion and echoes, in its process and in its backends."""

from benchmarks.measures import arenas
from benchmarks.report import Row
from benchmarks.stage import SideFailed, Stage


async def measure(stage: Stage) -> list[Row]:
    rows = []
    for name, side in (await arenas(stage, ["penstock", *stage.scale.peers])).items():
        try:
            answer = await side.run("idle", seconds=stage.scale.idle)
        except SideFailed as failure:
            rows.append(Row("idle worker", side.label, "% of a core", [], failure=str(failure)))
            continue
        worker, backends = 100 * answer["worker"], 100 * answer["backends"]
        note = f"worker {worker:.2f}, backends {backends:.2f}, over {stage.scale.idle:.0f} s"
        row = Row("idle worker", side.label, "% of a core", [worker + backends], note=note)
        rows.append(row.judged("≤ 1", lambda value: value <= 1) if name == "penstock" else row)
    return rows
