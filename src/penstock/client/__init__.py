"""Penstock from another program, by HTTP: `Client` and `AsyncClient`, alike in all but `await`.

    with Client("http://127.0.0.1:8080", key="pk_…") as penstock:
        accepted = penstock.documents.put("mill", "report.pdf")
        penstock.documents.wait(accepted.id)
        for hit in penstock.search("when was the turbine repaired", collection="mill").hits:
            print(hit.name, hit.page, hit.text)

Importing it loads neither the engine nor the HTTP library. `_async` is written by hand, `_sync` is made from it.
"""

from penstock.client._async import AsyncClient as AsyncClient
from penstock.client._sync import Client as Client
from penstock.client.errors import BadAnswer as BadAnswer
from penstock.client.errors import BadKey as BadKey
from penstock.client.errors import BadRequest as BadRequest
from penstock.client.errors import BadValue as BadValue
from penstock.client.errors import BodyTooLarge as BodyTooLarge
from penstock.client.errors import ClientError as ClientError
from penstock.client.errors import ContentChanged as ContentChanged
from penstock.client.errors import FetchFailed as FetchFailed
from penstock.client.errors import FetchRefused as FetchRefused
from penstock.client.errors import KeyInFlight as KeyInFlight
from penstock.client.errors import KeyReused as KeyReused
from penstock.client.errors import NameTaken as NameTaken
from penstock.client.errors import NotAllowed as NotAllowed
from penstock.client.errors import NotFound as NotFound
from penstock.client.errors import NotInstalled as NotInstalled
from penstock.client.errors import Problem as Problem
from penstock.client.errors import QueueFull as QueueFull
from penstock.client.errors import RangeRefused as RangeRefused
from penstock.client.errors import RateLimited as RateLimited
from penstock.client.errors import Refused as Refused
from penstock.client.errors import SourceChanged as SourceChanged
from penstock.client.errors import StillWaiting as StillWaiting
from penstock.client.errors import StorageFull as StorageFull
from penstock.client.errors import Trouble as Trouble
from penstock.client.errors import Unavailable as Unavailable
from penstock.client.errors import Unreachable as Unreachable
from penstock.client.errors import WrongState as WrongState
from penstock.client.fleet_models import Sent as Sent
from penstock.client.knowledge_models import Crawl as Crawl
from penstock.client.knowledge_models import CrawlPage as CrawlPage
from penstock.client.models import Accepted as Accepted
from penstock.client.models import AcceptedPacket as AcceptedPacket
from penstock.client.models import Collection as Collection
from penstock.client.models import Document as Document
from penstock.client.models import FileAnswer as FileAnswer
from penstock.client.models import Found as Found
from penstock.client.models import Hit as Hit
from penstock.client.models import Packet as Packet
from penstock.client.transport import sign_message as sign_message
