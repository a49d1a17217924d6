"""Facts that a language model reads in documents: extraction runs, validation of answers, entities, search."""

from penstock.knowledge.facts.config import ANSWER, ExtractionConfig, messages
from penstock.knowledge.facts.entities import Entity, list_entities
from penstock.knowledge.facts.facts import (
    Batch,
    FactHit,
    FoundFacts,
    Question,
    ShownFact,
    find_facts,
    list_facts,
    stage,
)
from penstock.knowledge.facts.runs import (
    Answer,
    ExtractionStatus,
    FactSource,
    RunCounts,
    answered_windows,
    begin,
    find_source,
    forget_answers,
    hold,
    keep_answer,
    keep_facts,
    list_pages,
    list_unasked,
    list_wanted,
    load_answers,
    publish,
    read_windows,
    show_status,
    standing_gaps,
    sweep_extractions,
)
from penstock.knowledge.facts.validate import Fact, ValidatedAnswer, read_answer, rejections
from penstock.knowledge.facts.windows import Cutter, Window, from_json, to_json
