"""One process of a system: `python -m benchmarks.gauntlet.process SYSTEM SETTINGS PLACE ACTION OPTIONS`.

The answer is one line of JSON on stdout; whatever a library prints goes to the log.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.gauntlet.jobs import Job, Place
from benchmarks.gauntlet.systems import System, load

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


async def act(side: System, action: str, options: dict[str, Any]) -> Any:
    match action:
        case "install":
            await side.install()
        case "enqueue":
            return await side.enqueue([Job.read(job) for job in options["jobs"]])
        case "cancel":
            await side.cancel(options["ids"])
        case "orders":
            for n in range(1, options["count"] + 1):
                await side.order(n, n == options["roll_back"], n == options["crash"])
        case "work":
            await side.work(options["name"], options["slots"], options["schedule"])
    return None


def main() -> None:
    name, settings, place, action, options = sys.argv[1:]
    given = json.loads(place)
    side = load(name)(Place(given["url"], Path(given["home"]), given["broker"]), settings == "recommended")
    answer = asyncio.run(act(side, action, json.loads(options)))
    answers.write(json.dumps(answer, default=str) + "\n")
    if action != "work":
        os._exit(0)  # pools and threads of the libraries need no farewell


if __name__ == "__main__":
    main()
