import asyncio, time, resource
from pathlib import Path
import pytest
from tests.hostile.pieces import zip_of
from tests.scenarios.library import Library
from tests.scenarios.conftest import library
from tests.conftest import *
@pytest.mark.timeout(400)
async def test_zip_family(library: Library) -> None:
    inner=zip_of((f"{n}.txt", b"water %d"%n) for n in range(100))
    mid=zip_of((f"{n}.zip", inner+b"") for n in range(100))
    out=zip_of((f"{n}.zip", mid) for n in range(100))
    print(len(inner),len(mid),len(out))
    await library.add({"bomb.zip":out,"after.txt":b"good water flows"})
    hand=await library.hire()
    t=time.time()
    while time.time()-t<200:
        await asyncio.sleep(5)
        r=await library.connection.fetch("select state,depth,count(*) from penstock.documents group by 1,2 order by 2,1")
        print(round(time.time()-t),[tuple(x) for x in r],flush=True)
        import os
        n=sum(len(f) for _,_,f in os.walk(library.home/"blobs"))
        print("  files in blobs",n,"home",sorted(os.listdir(library.home)) if library.home.exists() else None,flush=True)
        if any(x["state"]=="failed" for x in r):
            print(hand.logged[-3000:] if library.home.exists() else "home gone"); print(await library.connection.fetch("select state,count(*) from penstock.blobs group by 1")); break
        if not any(x["state"]=="queued" for x in r): break
    print(await library.connection.fetch("select d.name,v.gaps from penstock.documents d join penstock.versions v on v.id=d.version_id where jsonb_array_length(v.gaps)>0 limit 5"))
    print(await library.violations())
    print(await library.connection.fetch("select distinct error->>'message' from penstock.documents where state='failed' limit 5"))
