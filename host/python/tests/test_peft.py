"""Models of the package peft: trained parameters, PyTorch's gradients, and saving and merging of the result by peft."""

import copy
import subprocess
import sys
import warnings

import damper
import numpy as np
import pytest
import torch
from conftest import QUICK, assert_gradients_equal, full_step, mlp, separable
from torch import nn
from torch.nn import functional as F

peft = pytest.importorskip("peft", reason="peft is not installed: .ci/run python installs it")

N, EXPORTERS = 64, ["torchscript", "dynamo"]
X, Y = separable(N)
IDS = np.random.default_rng(0).integers(0, 40, (N, 6))
# Mask of texts of 3 to 6 tokens.
MASK = (np.arange(6) < np.random.default_rng(1).integers(3, 7, (N, 1))).astype(np.int64)
IMAGES = np.random.default_rng(2).standard_normal((N, 1, 6, 6)).astype(np.float32)


def fit(module, data=(X, Y), **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return damper.fit(module, data, **{**QUICK, "batch_size": 16, "delta": 1e-3, **settings})


def lora(target, **options):
    """`B` is not 0, so that `A` has a gradient in the first step."""
    return peft.LoraConfig(**{"r": 3, "target_modules": target, "init_lora_weights": False, **options})


def adapted(base, **options):
    return peft.get_peft_model(base, lora(**options))


def trained(module):
    return {name for name, parameter in module.named_parameters() if parameter.requires_grad}


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(144, 3)

    def forward(self, x):
        return self.head(self.conv(x).tanh().flatten(1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.conv, self.head = nn.Embedding(40, 8), nn.Conv1d(8, 4, 3), nn.Linear(4, 3)

    def forward(self, ids):
        return self.head(self.conv(self.embedding(ids).transpose(1, 2)).tanh().mean(2))


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    return BertForSequenceClassification(BertConfig(**sizes, max_position_embeddings=8, num_labels=3)).eval()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=8, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(config).eval()


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=8)).eval()


LINEAR = ["0", "2"]
TEXTS = {"input_ids": IDS, "attention_mask": MASK}
LAYERS = {
    "linear": lambda: (adapted(mlp(), target=LINEAR), X),
    "scaled": lambda: (adapted(mlp(), target=LINEAR, use_rslora=True, lora_alpha=5), X),
    "patterns": lambda: (adapted(mlp(), target=LINEAR, rank_pattern={"0": 2}, alpha_pattern={"0": 5}), X),
    "head": lambda: (adapted(mlp(), target=["0"], modules_to_save=["2"]), X),
    "biases": lambda: (adapted(mlp(), target=["0"], bias="lora_only"), X),
    "all-biases": lambda: (adapted(mlp(), target=["0"], bias="all", lora_bias=True), X),
    "dropout": lambda: (adapted(mlp(), target=LINEAR, lora_dropout=0.3), X),
    "olora": lambda: (adapted(mlp(), target=LINEAR, init_lora_weights="olora"), X),
    "pissa": lambda: (adapted(mlp(), target=LINEAR, init_lora_weights="pissa"), X),
    "conv2d": lambda: (adapted(Image(), target=["conv"]), IMAGES),
    "embedding-conv1d": lambda: (adapted(Words(), target=["embedding", "conv"]), IDS),
    "injected": lambda: (peft.inject_adapter_in_model(lora(LINEAR), mlp()), X),
    "ia3": lambda: (peft.get_peft_model(mlp(), peft.IA3Config(target_modules=LINEAR, feedforward_modules=["2"])), X),
    "ia3-conv2d": lambda: (peft.get_peft_model(Image(), peft.IA3Config(target_modules=["conv"], feedforward_modules=[])), IMAGES),
    "bert": lambda: (adapted(bert(), target=["query", "value"], task_type="SEQ_CLS"), IDS),
    "bert-masked": lambda: (adapted(bert(), target=["query", "value"], task_type="SEQ_CLS"), TEXTS),
    "gpt2": lambda: (adapted(gpt2(), target=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"), TEXTS),
    "llama": lambda: (adapted(llama(), target="all-linear", task_type="CAUSAL_LM"), IDS),
}
# The other exporter takes seconds for a network, so it has only some of them. llama without a mask is only for it.
CASES = [(name, "torchscript") for name in LAYERS if name != "llama"]
CASES += [(name, "dynamo") for name in ["linear", "head", "embedding-conv1d", "ia3", "bert", "llama"]]


@pytest.mark.parametrize("name, exporter", CASES)
def test_gradients_equal_torch(name, exporter):
    module, inputs = LAYERS[name]()
    is_text = name in ("gpt2", "llama")
    labels = np.where(MASK == 1, IDS, -100) if is_text else Y
    _, found = full_step(module, (inputs, labels), "causal-lm" if is_text else None, exporter=exporter)
    assert set(found) == trained(module)
    given = {key: torch.from_numpy(value) for key, value in inputs.items()} if isinstance(inputs, dict) else {}
    outputs = module.eval()(**given) if given else module.eval()(torch.from_numpy(inputs))
    logits, target = getattr(outputs, "logits", outputs), torch.from_numpy(labels)
    if is_text:
        each = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], reduction="none", ignore_index=-100)
        loss = (each.sum(1) / (target[:, 1:] != -100).sum(1)).mean()
    else:
        loss = F.cross_entropy(logits, target)
    assert_gradients_equal(found, module, loss)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_adapters_that_begin_with_zeros_are_trained(exporter):
    """`B` is 0, so the update of `A` is only noise."""
    module = peft.get_peft_model(mlp(), peft.LoraConfig(target_modules=LINEAR))
    before = copy.deepcopy(module)
    run = fit(module, exporter=exporter)
    assert set(run.params) == trained(module) and len(run.params) == 4
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, before.get_parameter(name)), "fit changed the module"
    assert run.load_into(module) is module
    for name, parameter in module.named_parameters():
        if name in run.params:
            assert parameter.detach().numpy().tobytes() == run.params[name].tobytes()
            assert (parameter != before.get_parameter(name)).any() and parameter.requires_grad
        else:
            assert torch.equal(parameter, before.get_parameter(name)) and not parameter.requires_grad
    # The first step of a baseline leaves `A` unchanged, and the warning names it.
    with pytest.warns(damper.PrivacyWarning, match="lora_A.default.weight', '.*lora_A.default.weight': the gradient was exactly 0 in 1 step"):
        damper.fit(before, (X, Y), not_private=True, epochs=1, batch_size=N, lr=0.3, progress=False)


@pytest.mark.parametrize("name", ["head", "bert-masked"])
def test_peft_saves_and_merges(name, tmp_path):
    module, inputs = LAYERS[name]()
    base = copy.deepcopy(module.get_base_model())
    untouched = mlp() if name == "head" else bert()
    run = fit(module, (inputs, Y))
    run.load_into(module)

    def answer(module):
        given = {key: torch.from_numpy(value) for key, value in inputs.items()} if isinstance(inputs, dict) else None
        with torch.no_grad():
            outputs = module.eval()(**given) if given else module.eval()(torch.from_numpy(inputs))
        return getattr(outputs, "logits", outputs).numpy()

    expected = answer(module)
    assert np.abs(expected - answer(base)).max() > 1e-3, "nothing was learned"
    module.save_pretrained(tmp_path / "adapter")
    # The base before peft.
    state = {key.replace(".base_layer", "").replace(".original_module", ""): value for key, value in base.state_dict().items()}
    untouched.load_state_dict({key: value for key, value in state.items() if "lora_" not in key and "modules_to_save" not in key})
    again = peft.PeftModel.from_pretrained(untouched, tmp_path / "adapter")
    np.testing.assert_allclose(answer(again), expected, atol=1e-6)
    merged = module.merge_and_unload()
    assert not any("lora" in key for key in merged.state_dict())
    np.testing.assert_allclose(answer(merged), expected, atol=1e-5)


def test_active_adapters_alone_are_trained():
    module = adapted(mlp(), target=LINEAR)
    module.add_adapter("other", lora(["2"]))
    for active, count in (("default", 4), ("other", 2)):
        module.set_adapter(active)
        run = fit(module)
        assert len(run.params) == count and all(f".{active}." in name for name in run.params)
    # Both at once, as peft sums them.
    module.base_model.set_adapter(["default", "other"])
    assert len(fit(module).params) == 6
    # An inactive adapter has no gradient in PyTorch either.
    module.set_adapter("other")
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("lora" in name)
    with pytest.warns(damper.PrivacyWarning, match="lora_A.default.weight'.*: not trained, for no output depends on it"):
        run = damper.fit(module, (X, Y), **{**QUICK, "batch_size": 16, "delta": 1e-3})
    assert all(".other." in name for name in run.params) and len(run.params) == 2


def test_lora_dropout_is_off_and_said():
    module = adapted(mlp(), target=LINEAR, lora_dropout=0.2).train()
    with pytest.warns(damper.PrivacyWarning, match="dropout of 'base_model.model.0.lora_dropout.default', .*: off"):
        damper.fit(module, (X, Y), **{**QUICK, "batch_size": 16, "delta": 1e-3})
    assert module.training and module.base_model.model[0].lora_dropout["default"].p == 0.2


def test_what_trains_otherwise_is_refused(tmp_path):
    def refused(match, make, data=(X, Y), **settings):
        with pytest.raises(damper.Error, match=match):
            fit(make() if callable(make) and not isinstance(make, nn.Module) else make, data, **settings)

    refused("'base_model.model.0': the adapter 'default' uses DoRA.*use_dora=False", lambda: adapted(mlp(), target=LINEAR, use_dora=True))
    refused("variant MiCALinear of LoRA", lambda: adapted(mlp(), target=LINEAR, init_lora_weights="mica"))
    refused("of the type LOHA; LoRA and IA3", lambda: peft.get_peft_model(mlp(), peft.LoHaConfig(target_modules=LINEAR)))
    refused("of the type VERA", lambda: peft.get_peft_model(mlp(), peft.VeraConfig(target_modules=["2"])))
    prompts = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=2)
    refused("of the type PROMPT_TUNING", lambda: peft.get_peft_model(bert(), prompts), (IDS, Y))
    refused("'0' is a peft.tuners.lora.layer.ParamWrapper",
            lambda: peft.inject_adapter_in_model(peft.LoraConfig(target_modules=[], target_parameters=["0.weight"]), mlp()))
    layer = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.0, batch_first=True)
    refused("'base_model.model.self_attn' is a peft.*MultiheadAttention", lambda: adapted(layer, target=["self_attn"]))

    merged = adapted(mlp(), target=LINEAR)
    run = fit(merged)
    merged.merge_adapter()
    refused("'base_model.model.0': its adapters 'default' are merged .*unmerge_adapter", merged)
    with pytest.raises(damper.Error, match="are merged"):
        run.load_into(merged)
    merged.unmerge_adapter()
    run.load_into(merged)
    merged.base_model.disable_adapter_layers()
    refused("'base_model.model.0': its adapters are disabled", merged)
    module = adapted(mlp(), target=LINEAR)
    refused("lora: the module has adapters of peft", module, lora=2, lora_target="*")
    module.save_pretrained(tmp_path)
    refused("unfreeze some; adapters of peft .*is_trainable=True", lambda: peft.PeftModel.from_pretrained(mlp(), tmp_path))
    assert len(fit(peft.PeftModel.from_pretrained(mlp(), tmp_path, is_trainable=True)).params) == 4


def test_peft_is_not_imported():
    program = """
import sys, warnings, numpy as np, torch, damper
warnings.simplefilter("ignore")
module = torch.nn.Linear(3, 2)
data = np.random.default_rng(0).standard_normal((40, 3)).astype("float32"), np.arange(40) % 2
run = damper.fit(module, data, noise_multiplier=1.0, delta=1e-3, epochs=1, batch_size=8, lr=0.1, progress=False)
run.load_into(module)
assert not {"peft", "transformers"} & set(sys.modules), "imported"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
