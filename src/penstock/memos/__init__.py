"""Memos: conversations come in as messages of streams, and what is worth remembering of them is kept, merged and superseded."""

from penstock.memos.memo import Harvest as Harvest
from penstock.memos.memo import Overtaken as Overtaken
from penstock.memos.memo import Question as Question
from penstock.memos.memo import Shown as Shown
from penstock.memos.memo import find_memos as find_memos
from penstock.memos.memo import list_memos as list_memos
from penstock.memos.memo import show_memos as show_memos
from penstock.memos.message import Message as Message
from penstock.memos.streams import Posted as Posted
from penstock.memos.streams import Stream as Stream
from penstock.memos.streams import delete_message as delete_message
from penstock.memos.streams import find_stream as find_stream
from penstock.memos.streams import list_streams as list_streams
from penstock.memos.streams import mark_deleted as mark_deleted
from penstock.memos.streams import post as post
