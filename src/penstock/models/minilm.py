"""MiniLM (all-MiniLM-L6-v2) in integers of 8 bits, run by onnxruntime from the folder that install.py has made.

Texts go through one by one. Activations are rounded by the range of all that is in a batch: together with others, a text gets
a vector with a cosine of only 0.986 to its own (measured), and with two threads a batch of long texts was no faster.
"""

import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import CannotStart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 384
TOKENS_MAX = 256  # what it was trained for
LONGEST = 16_384  # characters, far more than so many tokens need
GRAPH, TOKENIZER, MARKER = "model.onnx", "tokenizer.json", "model.json"
AGAIN = "Run `penstock model install minilm`."


class MiniLM:
    """The graph in memory (a process with it has 150 MB); one thread at a time calls it."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        graph, tokenizer = _checked(folder, GRAPH), _checked(folder, TOKENIZER)
        self._tokenizer: Any = Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(TOKENS_MAX)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else it burns a core while it waits
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text; a text without tokens is all zeros."""
        import numpy as np

        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            tokens = self._tokenizer.encode(text[:LONGEST]).ids
            if len(tokens) > 2:  # besides the marks of its beginning and its end
                [[mean]] = self._session.run(["means"], {"tokens": np.array([tokens], dtype=np.int64)})
                row[:] = mean / np.linalg.norm(mean)
        return rows


def is_installed(folder: Path) -> bool:
    """Whether it was built there; the marker comes with the whole folder, by one rename."""
    return (folder / MARKER).is_file()


def _checked(folder: Path, name: str) -> bytes:
    try:
        digests = json.loads((folder / MARKER).read_bytes())["sha256"]
        content = (folder / name).read_bytes()
        sound = digests[name] == sha256(content).hexdigest()
    except FileNotFoundError:
        raise CannotStart(f"The model minilm is not in {folder}. {AGAIN}") from None
    except OSError as error:
        raise CannotStart(f"The model minilm in {folder} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        sound, content = False, b""
    if not sound:
        raise CannotStart(f"The file {name} of the model minilm in {folder} is damaged. {AGAIN}")
    return content
