"""Networks of transformers, each of two narrow layers, with the usual heads for fine-tuning."""

import torch
import transformers as hf
from torch import nn

from zoo_networks import CLASSES, LENGTH, VOCABULARY, WIDTH, Network, ids, noise


class Outputs(nn.Module):
    """A model whose answer is one field of its outputs."""

    def __init__(self, model, names, field):
        super().__init__()
        self.model, self.names, self.field = model, names, field

    def forward(self, *inputs):
        answer = self.model(**dict(zip(self.names, inputs)))
        return answer[self.field] if isinstance(self.field, int) else getattr(answer, self.field)

    def set_attn_implementation(self, name):
        self.model.set_attn_implementation(name)


# ---- inputs: the first sample fills its length, the second is padded on the left, the third on the right


def mask(rows):
    kept = torch.ones(rows, LENGTH, dtype=torch.int64)
    kept[1:2, :3] = 0
    kept[2:3, -2:] = 0
    return kept


def tokens(rows):
    """Padding is 0."""
    return ids(LENGTH)(rows) * mask(rows)


TEXT = {"input_ids": tokens, "attention_mask": mask}
PAIR = TEXT | {"decoder_input_ids": ids(5)}


# ---- configurations


SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 2 * WIDTH, "max_position_embeddings": 4 * LENGTH, "num_labels": CLASSES, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "use_cache": False,
}
GROUPED = {"num_key_value_heads": 1, "head_dim": WIDTH // 2}


def config(kind, **changes):
    return kind(**(SIZES | changes))


def text(head, settings, inputs=TEXT, field="logits"):
    return Network(lambda: Outputs(head(settings()), list(inputs), field), inputs, packed=True)


HEADS = {
    "sequence": hf.AutoModelForSequenceClassification, "token": hf.AutoModelForTokenClassification,
    "masked": hf.AutoModelForMaskedLM, "causal": hf.AutoModelForCausalLM, "answer": hf.AutoModelForQuestionAnswering,
}


def heads(name, settings, kinds):
    """A network for each kind of head."""
    found = {f"{name}/{kind}": text(HEADS[kind].from_config, settings) for kind in kinds if kind != "answer"}
    if "answer" in kinds:
        found[f"{name}/answer"] = text(HEADS["answer"].from_config, lambda: two(settings()), field="start_logits")
    return found


def two(settings):
    """Answers to questions have a start and an end."""
    settings.num_labels = 2
    return settings


def encoder(name, settings):
    return heads(name, settings, ("sequence", "token", "masked", "answer"))


def decoder(name, settings, token=True):
    return heads(name, settings, ("causal", "sequence", "token") if token else ("causal", "sequence"))


BERT = encoder("bert", lambda: config(hf.BertConfig))
BERT["bert/choice"] = Network(
    lambda: Outputs(hf.BertForMultipleChoice(config(hf.BertConfig)), ["input_ids"], "logits"),
    {"input_ids": ids(3, LENGTH)},
    packed=True,
)
ENCODERS = (
    BERT
    | encoder("distilbert", lambda: hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=WIDTH, n_layers=2, n_heads=2, hidden_dim=2 * WIDTH, max_position_embeddings=32,
        num_labels=CLASSES,
    ))
    | encoder("roberta", lambda: config(hf.RobertaConfig, type_vocab_size=1))
    | encoder("electra", lambda: config(hf.ElectraConfig, embedding_size=8))
    | encoder("deberta-v3", lambda: config(
        hf.DebertaV2Config, relative_attention=True, position_buckets=4, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
    ))
    | encoder("albert", lambda: config(hf.AlbertConfig, embedding_size=8))
    | encoder("mpnet", lambda: config(hf.MPNetConfig, pad_token_id=1))
    | encoder("modernbert", lambda: config(
        hf.ModernBertConfig, local_attention=4, global_attn_every_n_layers=2, cls_token_id=3, sep_token_id=2,
    ))
)
DECODERS = (
    decoder("gpt2", lambda: hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=32, num_labels=CLASSES, pad_token_id=0,
        use_cache=False,
    ))
    | decoder("opt", lambda: config(hf.OPTConfig, ffn_dim=32, word_embed_proj_dim=WIDTH), token=False)
    | decoder("llama", lambda: config(hf.LlamaConfig, **GROUPED))
    | decoder("qwen2", lambda: config(hf.Qwen2Config, **GROUPED))
    | decoder("qwen3", lambda: config(hf.Qwen3Config, **GROUPED))
    | decoder("mistral", lambda: config(hf.MistralConfig, sliding_window=4, **GROUPED))
    | decoder("gemma", lambda: config(hf.GemmaConfig, **GROUPED))
    | decoder("gemma2", lambda: config(hf.Gemma2Config, sliding_window=4, query_pre_attn_scalar=8, **GROUPED))
    | decoder("gemma3", lambda: config(
        hf.Gemma3TextConfig, sliding_window=4, query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"], **GROUPED,
    ), token=False)
    | decoder("phi", lambda: config(hf.PhiConfig))
    | decoder("gpt-neox", lambda: config(hf.GPTNeoXConfig))
    | decoder("falcon", lambda: config(
        hf.FalconConfig, multi_query=True, new_decoder_architecture=False, alibi=False,
    ))
    | decoder("bloom", lambda: config(hf.BloomConfig, n_layer=2, n_head=2))
)


# ---- encoders with decoders, speech, images


def t5():
    return hf.T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2, num_labels=CLASSES,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, decoder_start_token_id=0, eos_token_id=2,
        use_cache=False, classifier_dropout=0.0,
    )


def bart():
    return hf.BartConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=32, pad_token_id=0,
        num_labels=CLASSES, eos_token_id=2, bos_token_id=1, decoder_start_token_id=2, use_cache=False,
    )


def end(rows):
    """Each sample has one end, as BART's classifier needs."""
    values = ids(LENGTH)(rows)
    values[:, -1] = 2
    return values


def whisper():
    return hf.WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=WIDTH, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        max_source_positions=8, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=3, use_cache=False, classifier_proj_size=8, num_labels=CLASSES,
    )


def wav2vec2(**changes):
    return hf.Wav2Vec2Config(**({
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32, "conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (6, 3),
        "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
        "num_labels": CLASSES, "classifier_proj_size": 8, "apply_spec_augment": False,
    } | changes))


def segformer():
    return hf.SegformerConfig(
        depths=[1, 1], num_encoder_blocks=2, hidden_sizes=[8, 16], sr_ratios=[2, 1], num_attention_heads=[1, 2],
        patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=CLASSES,
    )


def vit():
    return config(hf.ViTConfig, image_size=8, patch_size=4)


def clip(half):
    layers = {"hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sides = {
        "vision_config": layers | {"image_size": 8, "patch_size": 4},
        "text_config": layers | {
            "vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1,
            "pad_token_id": 0,
        },
    }
    both = hf.CLIPConfig(**sides, projection_dim=8)
    return getattr(both, half) if half else both


class Clip(nn.Module):
    """A sample is an image and a text. The outputs are the products of their embeddings."""

    def __init__(self):
        super().__init__()
        self.model = hf.CLIPModel(clip(None))

    def forward(self, input_ids, attention_mask, pixel_values):
        answer = self.model(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)
        return answer.image_embeds * answer.text_embeds * self.model.logit_scale.exp()


class Pooled(nn.Module):
    """An encoder, the mean over positions, a linear layer."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        kept = attention_mask[..., None].to(hidden.dtype)
        return self.head((hidden * kept).sum(1) / kept.sum(1))


IMAGE = {"pixel_values": noise(3, 8, 8)}
SOUND = {"input_features": noise(8, 16), "decoder_input_ids": ids(5)}
OTHERS = {
    "t5/encoder": Network(lambda: Pooled(hf.T5EncoderModel(t5())), TEXT),
    "t5/token": text(hf.T5ForTokenClassification, t5),
    "t5/seq2seq": text(hf.T5ForConditionalGeneration, t5, PAIR),
    "t5/sequence": text(hf.T5ForSequenceClassification, t5, {"input_ids": end}),
    "bart/seq2seq": text(hf.BartForConditionalGeneration, bart, PAIR),
    "bart/sequence": text(hf.BartForSequenceClassification, bart, {"input_ids": end}),
    "whisper/seq2seq": text(hf.WhisperForConditionalGeneration, whisper, SOUND),
    "whisper/audio": text(hf.WhisperForAudioClassification, whisper, {"input_features": noise(8, 16)}),
    "wav2vec2/ctc": text(hf.Wav2Vec2ForCTC, wav2vec2, {"input_values": noise(160)}),
    "wav2vec2/sequence": text(hf.Wav2Vec2ForSequenceClassification, wav2vec2, {"input_values": noise(160)}),
    "wav2vec2-large/ctc": text(
        hf.Wav2Vec2ForCTC, lambda: wav2vec2(feat_extract_norm="layer", do_stable_layer_norm=True),
        {"input_values": noise(160)},
    ),
    "clip/image": text(hf.CLIPVisionModelWithProjection, lambda: clip("vision_config"), IMAGE, "image_embeds"),
    "clip/image-classes": text(hf.CLIPForImageClassification, lambda: clip(None), IMAGE),
    "clip/text": text(hf.CLIPTextModelWithProjection, lambda: clip("text_config"), TEXT, "text_embeds"),
    "clip/both": Network(Clip, TEXT | IMAGE),
    "segformer/image": text(hf.SegformerForImageClassification, segformer, {"pixel_values": noise(3, 32, 32)}),
    "segformer/segments": Network(
        lambda: Outputs(hf.SegformerForSemanticSegmentation(segformer()), ["pixel_values"], "logits"),
        {"pixel_values": noise(3, 32, 32)}, class_axis=1, packed=True,
    ),
    "vit/image": text(hf.ViTForImageClassification, vit, IMAGE),
}
NETWORKS = {f"transformers/{key}": one for key, one in (ENCODERS | DECODERS | OTHERS).items()}
