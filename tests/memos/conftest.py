"""A model that does as it is told."""

from collections.abc import AsyncIterator

import pytest

from tests.memos.memo_model import MemoModel
from tests.models.chat import Chat, chatting


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        yield known


@pytest.fixture
async def memo_model(chat: Chat) -> MemoModel:
    return MemoModel(chat)
