"""Transformers of real sizes, built from configurations with random weights: modules for the peers, and .onnx files for damper.

    python3 benches/peers/real.py bert-base|vit-b16|gpt2 FILE.onnx

writes the file that damper trains, the unchanged model of transformers. The peers get a form that Opacus accepts:
parameters in separate modules, positions for each sample, linear layers instead of GPT-2's Conv1D.
"""

import sys
import warnings

import torch
import transformers
from torch import nn

from shapes import RANK, batch

OPSET = 18


def bert():
    config = transformers.BertConfig(num_labels=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    return transformers.BertForSequenceClassification(config)


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))


class Logits(nn.Module):
    """A model of transformers that returns only the logits."""

    def __init__(self, net, *names):
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *inputs):
        return self.net(**dict(zip(self.names, inputs))).logits


class Bert(nn.Module):
    """Trains the classifier (`head`), the classifier with adapters of queries and values (`lora`), or all."""

    def __init__(self, trained):
        super().__init__()
        self.net = bert()
        if trained == "lora":
            from peft import LoraConfig, get_peft_model

            self.net = get_peft_model(self.net, LoraConfig(
                r=RANK, lora_alpha=RANK, target_modules=["query", "value"], modules_to_save=["classifier"],
            ))
        elif trained == "head":
            self.net.requires_grad_(False)
            self.net.classifier.requires_grad_(True)

    def forward(self, x):
        # Contiguous, which Opacus' ghost clipping requires.
        ids, mask = (part.contiguous() for part in x.unbind(1))
        mask = (1 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        positions = torch.arange(ids.shape[1]).repeat(ids.shape[0], 1)
        return self.net(
            input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids), position_ids=positions,
        ).logits


class Embeddings(nn.Module):
    """Patches, a trained token in front, and positions."""

    def __init__(self, shipped):
        super().__init__()
        from modules import Plus, Token

        self.patch_embeddings = shipped.patch_embeddings
        self.token, self.positions = Token(shipped.cls_token.shape[-1]), Plus(shipped.position_embeddings.shape)

    def forward(self, pixel_values, **_):
        return self.positions(self.token(self.patch_embeddings(pixel_values)))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = vit()
        self.net.vit.embeddings = Embeddings(self.net.vit.embeddings)

    def forward(self, x):
        return self.net(pixel_values=x).logits


class Gpt2(nn.Module):
    """Its output layer's weight is the embedding."""

    def __init__(self):
        super().__init__()
        self.net = gpt2()
        for module in list(self.net.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, transformers.pytorch_utils.Conv1D):
                    linear = nn.Linear(*child.weight.shape)
                    linear.weight.data, linear.bias.data = child.weight.data.T.contiguous(), child.bias.data
                    setattr(module, name, linear)

    def forward(self, ids):
        positions = torch.arange(ids.shape[1]).repeat(ids.shape[0], 1)
        return self.net(input_ids=ids, position_ids=positions).logits


NETWORKS = {
    "bert-base-head": lambda: Bert("head"),
    "bert-base-lora": lambda: Bert("lora"),
    "bert-base": lambda: Bert("all"),
    "vit-b16": ViT,
    "gpt2": Gpt2,
}
SOURCES = {
    "bert-base": (bert, ["input_ids", "attention_mask"]),
    "vit-b16": (vit, ["pixel_values"]),
    "gpt2": (gpt2, ["input_ids"]),
}


def main(network, file):
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    make, names = SOURCES[network]
    x = torch.from_numpy(batch(network, 2)[0])
    inputs = x.unbind(1) if network == "bert-base" else (x,)
    torch.onnx.export(
        Logits(make(), *names).eval(), tuple(inputs), file, dynamo=True, opset_version=OPSET, input_names=names, output_names=["logits"],
        dynamic_shapes=(tuple({0: torch.export.Dim("batch")} for _ in names),), verbose=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
