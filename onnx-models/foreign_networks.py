"""Networks of other packages, each in its smallest configuration, as PyTorch modules that take the data and
return one tensor of outputs."""

import functools

import torch
from torch import nn

VOCABULARY, WIDTH, LENGTH, CLASSES = 50, 16, 8, 5


class Outputs(nn.Module):
    """A Hugging Face model whose answer is one field of its outputs. The packages' own modules keep their names."""

    def __init__(self, model, field="logits"):
        super().__init__()
        self.model, self.field = model, field

    def forward(self, *inputs):
        names = ("input_ids", "attention_mask") if inputs[0].dtype == torch.int64 else ("pixel_values",)
        return getattr(self.model(**dict(zip(names, inputs))), self.field)


# ---- transformers


def small(config, **changes):
    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 2 * WIDTH, "max_position_embeddings": 2 * LENGTH, "num_labels": CLASSES,
    }
    return config(**(sizes | changes))


def bert_classifier():
    import transformers as hf

    return Outputs(hf.BertForSequenceClassification(small(hf.BertConfig)))


def bert_masked():
    """Masked language model: its output layer is the word embedding, transposed."""
    import transformers as hf

    return Outputs(hf.BertForMaskedLM(small(hf.BertConfig, attn_implementation="eager")))


def roberta():
    import transformers as hf

    return Outputs(hf.RobertaForSequenceClassification(small(hf.RobertaConfig, type_vocab_size=1)))


def distilbert():
    import transformers as hf

    config = hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=WIDTH, n_layers=2, n_heads=2, hidden_dim=2 * WIDTH,
        max_position_embeddings=2 * LENGTH, num_labels=CLASSES,
    )
    return Outputs(hf.DistilBertForSequenceClassification(config))


def gpt2():
    """Its output layer is the token embedding."""
    import transformers as hf

    config = hf.GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=2 * LENGTH)
    return Outputs(hf.GPT2LMHeadModel(config))


def llama():
    """RMS norms, rotary positions, gated feed-forward layers, two heads to one key."""
    import transformers as hf

    sizes = {"num_key_value_heads": 1, "tie_word_embeddings": False, "use_cache": False}
    config = hf.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=2 * LENGTH, **sizes,
    )
    return Outputs(hf.LlamaForCausalLM(config))


class T5Classifier(nn.Module):
    """T5's encoder (RMS norms, relative positions by buckets), the mean over positions, a linear layer."""

    def __init__(self):
        super().__init__()
        import transformers as hf

        self.encoder = hf.T5EncoderModel(hf.T5Config(
            vocab_size=VOCABULARY, d_model=WIDTH, d_kv=WIDTH // 2, d_ff=2 * WIDTH, num_layers=2, num_heads=2,
            relative_attention_num_buckets=8, relative_attention_max_distance=16,
        ))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(hidden.mean(1))


class SentenceEmbedding(nn.Module):
    """As sentence-transformers: BERT, the mean over the tokens that the mask keeps, normalised."""

    def __init__(self):
        super().__init__()
        import transformers as hf

        self.bert = hf.BertModel(small(hf.BertConfig), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).expand(hidden.size()).float()
        mean = torch.sum(hidden * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
        return nn.functional.normalize(mean, p=2, dim=1)


def vit():
    import transformers as hf

    config = small(hf.ViTConfig, image_size=8, patch_size=4, num_channels=3)
    return Outputs(hf.ViTForImageClassification(config))


# ---- torchvision


def with_head(net, head):
    """Replaces zeros in the last layer, with which some networks begin. No gradient flows through zeros."""
    nn.init.normal_(head.weight, std=0.2)
    return net


def groups(channels):
    return nn.GroupNorm(2, channels)


def resnet18():
    """ResNet-18 of torchvision with another `norm_layer`, and eight channels instead of 64 in the first layer."""
    from torchvision.models import resnet

    class Narrow(resnet.ResNet):
        def _make_layer(self, block, planes, *args, **kwargs):
            self.inplanes = 8 if planes == 64 else self.inplanes
            return super()._make_layer(block, planes // 8, *args, **kwargs)

    net = Narrow(resnet.BasicBlock, [2, 2, 2, 2], num_classes=CLASSES, norm_layer=groups)
    net.conv1, net.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), groups(8)
    net.layer3, net.layer4 = nn.Identity(), nn.Identity()
    net.fc = nn.Linear(16, CLASSES)
    return net


def vision_transformer():
    from torchvision.models import VisionTransformer

    net = VisionTransformer(
        image_size=8, patch_size=4, num_layers=2, num_heads=2, hidden_dim=WIDTH, mlp_dim=2 * WIDTH, num_classes=CLASSES
    )
    return with_head(net, net.heads.head)


def convnext():
    from torchvision.models import ConvNeXt
    from torchvision.models.convnext import CNBlockConfig

    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    return ConvNeXt(blocks, num_classes=CLASSES, layer_scale=0.1)


def mobilenet_v2():
    from torchvision.models import MobileNetV2

    setting = [[1, 8, 1, 1], [2, 8, 2, 2], [2, 16, 1, 2]]
    net = MobileNetV2(CLASSES, 0.25, setting, round_nearest=4, norm_layer=groups, dropout=0.1)
    net.features[-1][0] = nn.Conv2d(net.features[-1][0].in_channels, 24, 1, bias=False)
    net.features[-1][1] = groups(24)
    net.classifier[1] = nn.Linear(24, CLASSES)
    return net


def efficientnet():
    """With squeeze-and-excitation and SiLU."""
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    setting = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(2, 5, 2, 8, 16, 1, 1.0, 1.0)]
    return EfficientNet(setting, 0.1, num_classes=CLASSES, norm_layer=groups, last_channel=24)


# ---- timm


def mixer():
    from timm.models.mlp_mixer import MlpMixer

    net = MlpMixer(num_classes=CLASSES, img_size=8, patch_size=4, num_blocks=2, embed_dim=WIDTH)
    return with_head(net, net.head)


def standardised_resnet():
    """Pre-activation ResNet with standardised weights (its convolutions read normalised weights) and GroupNorm."""
    from timm.layers import GroupNormAct, StdConv2d
    from timm.models.resnetv2 import ResNetV2

    norm = functools.partial(GroupNormAct, num_groups=2)
    return ResNetV2(
        layers=[1, 1], channels=(8, 16), num_classes=CLASSES, stem_chs=8, stem_type="", norm_layer=norm,
        conv_layer=StdConv2d, preact=True, bottle_ratio=0.5,
    )


# ---- PyTorch's own


class Encoder(nn.Module):
    """Learned positions, nn.TransformerEncoder, the first token's output."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(0.1 * torch.randn(1, LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids):
        hidden = self.encoder(self.embedding(input_ids) + self.position)
        return self.head(hidden[:, 0])


class Attention(nn.Module):
    """nn.MultiheadAttention with its default, the batch on axis 1."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = x.transpose(0, 1)
        out, _ = self.attention(x, x, x)
        return self.head(out.mean(0))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Positions(nn.Module):
    """A common form of a small GPT: a table of positions looked up at `arange`, a causal mask, one tied table."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("triu", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1), persistent=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.token.weight

    def forward(self, input_ids):
        x = self.token(input_ids) + self.place(torch.arange(LENGTH))
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        x = x + (scores + self.triu).softmax(-1) @ self.value(x)
        return self.head(self.norm(x)) * self.temperature
