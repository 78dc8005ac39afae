"""Writes a bag of embeddings: the mean of a text's token embeddings and a linear layer on it, logits [N, 2].

    pip install -r ../requirements.txt && python3 bag.py bag.onnx

65,570 parameters for wordpiece.json, 64 tokens a text. Trained in benches/record/text.md.
"""

import sys
import warnings

import torch
from torch import nn

TOKENS, LENGTH, WIDTH, CLASSES = 4096, 64, 16, 2


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.normal_(self.head.weight, std=0.25)
        nn.init.zeros_(self.head.bias)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask.to(torch.float32).unsqueeze(2)
        return self.head((self.embedding(input_ids) * mask).sum(1) / mask.sum(1))


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    inputs = ["input_ids", "attention_mask"]
    torch.onnx.export(
        Bag().eval(),
        tuple(torch.ones(2, LENGTH, dtype=torch.long) for _ in inputs),
        sys.argv[1],
        dynamo=False,
        opset_version=18,
        input_names=inputs,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch"} for name in [*inputs, "logits"]},
    )


if __name__ == "__main__":
    main()
