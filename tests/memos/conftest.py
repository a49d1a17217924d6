"""A model that does as it is told."""

from collections.abc import AsyncIterator

import pytest

from tests.memos.keeper import Keeper
from tests.models.chat import Chat, chatting


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        yield known


@pytest.fixture
async def keeper(chat: Chat) -> Keeper:
    return Keeper(chat)
