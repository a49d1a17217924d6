from penstock.extraction.pdf.hyphens import HYPHEN, compounds, mend, mend_lines


def test_a_torn_word_is_joined_when_that_is_sure() -> None:
    assert mend(f"com{HYPHEN}pile", frozenset()) == "compile"
    assert mend(f"Mask{HYPHEN}RCNN and 2{HYPHEN}3", frozenset()) == "Mask-RCNN and 2-3"


def test_a_hyphen_that_the_document_writes_elsewhere_stays() -> None:
    assert mend(f"run{HYPHEN}time", compounds(["at Run-time, or well before"])) == "run-time"


def test_lines_are_joined_only_at_torn_words() -> None:
    assert mend_lines("a cate-\ngory of its own\nnext - \nlast 3-\n4") == "a category of its own\nnext - \nlast 3-\n4"
    assert mend_lines("well-known, and well-\nknown") == "well-known, and well-known"
    assert mend_lines("the Mask-\nRCNN") == "the Mask-RCNN"
