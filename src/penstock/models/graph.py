"""The graph of MiniLM, built from its weights with `onnx` and numpy: BERT, the mean of its tokens, in integers of 8 bits.

Input: `tokens` (int64, 1 x tokens). Output: `means` (float32, 1 x 384), not yet of length 1.

A weight is a whole number and one scale for each output. Activations are rounded while it runs, by the range that they have.
Matrices use 7 of the 8 bits: without VNNI, processors add pairs of products in 16 bits, and with 8 the sum would overflow
there. A text has to have the same vector on the machine that indexed it and on the one that is asked.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import CannotStart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LAYERS, HIDDEN, HEADS = 6, 384, 12
OPSET, IR = 17, 8  # what onnxruntime 1.20 surely knows


def build_graph(weights: "Mapping[str, NDArray[np.float32]]") -> bytes:
    """The serialised graph; the same weights give the same bytes."""
    return _Graph(weights).build()


class _Graph:
    """Nodes and weights as they are added; a value is its name."""

    def __init__(self, weights: "Mapping[str, NDArray[np.float32]]") -> None:
        try:
            import onnx
        except ImportError:
            raise CannotStart(
                "Building the model needs the package onnx, which is not installed. Install penstock[minilm]."
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
