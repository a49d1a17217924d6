from penstock.extraction.pdf.text import HYPHEN, compounds, join_hyphenated, join_hyphenated_lines


def test_a_torn_word_is_joined_when_that_is_sure() -> None:
    assert join_hyphenated(f"com{HYPHEN}pile", frozenset()) == "compile"
    assert join_hyphenated(f"Mask{HYPHEN}RCNN and 2{HYPHEN}3", frozenset()) == "Mask-RCNN and 2-3"


def test_a_hyphen_that_the_document_writes_elsewhere_stays() -> None:
    assert join_hyphenated(f"run{HYPHEN}time", compounds(["at Run-time, or well before"])) == "run-time"


def test_lines_are_joined_only_at_torn_words() -> None:
    assert (
        join_hyphenated_lines("a cate-\ngory of its own\nnext - \nlast 3-\n4")
        == "a category of its own\nnext - \nlast 3-\n4"
    )
    assert join_hyphenated_lines("well-known, and well-\nknown") == "well-known, and well-known"
    assert join_hyphenated_lines("the Mask-\nRCNN") == "the Mask-RCNN"
