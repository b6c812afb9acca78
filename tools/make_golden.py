#!/usr/bin/env python3
"""Reference values for `tessera verify --hf DIR --golden FILE`, from PyTorch and transformers.

  make_golden.py new OUT_DIR [KIND ...]
                                      tiny random models with their reference values (tests/data/hf)
  make_golden.py for HF_DIR OUT_FILE  reference values for an existing folder and the batch of its
                                      golden.safetensors

transformers computes norms, softmax and rotary tables in float32 even in a float64 model, which
limits any comparison to about 1e-7. Here those three are computed in float64 too. GPT-2 has neither
RMSNorm nor rotary tables; only its softmax is replaced. Of Mixtral, the router and the
load-balancing loss are computed in float64 too.
"""
import importlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, MixtralConfig,
                          Qwen2Config, Qwen3Config)


def norm_in_f64(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def attention_in_f64(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    scores = torch.matmul(query, key.transpose(2, 3)) * (scaling or query.shape[-1] ** -0.5)
    length = scores.shape[-1]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    window = getattr(module.config, "sliding_window", None)
    if window is not None:
        hidden |= torch.ones(length, length, dtype=torch.bool).tril(-window)
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(scores.softmax(-1), value).transpose(1, 2).contiguous(), None


def frequencies(config):
    rope = config.rope_parameters
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inv = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope["rope_type"] == "default":
        return inv
    original, low, high = (rope["original_max_position_embeddings"], rope["low_freq_factor"],
                           rope["high_freq_factor"])
    wave = 2 * torch.pi / inv
    keep = ((original / wave - low) / (high - low)).clamp(0, 1)
    return (1 - keep) * inv / rope["factor"] + keep * inv


def rope_in_f64(self, x, position_ids):
    angle = position_ids[..., None].double() * frequencies(self.config)
    both = torch.cat((angle, angle), dim=-1)
    return both.cos(), both.sin()


def router_in_f64(self, x):
    logits = torch.nn.functional.linear(x.reshape(-1, self.hidden_dim), self.weight)
    chosen, ids = logits.softmax(-1).topk(self.top_k, dim=-1)
    return logits, chosen / chosen.sum(-1, keepdim=True), ids


def balance_in_f64(gate_logits, num_experts, top_k, attention_mask=None):
    probabilities = torch.cat(gate_logits).softmax(-1)
    choices = torch.bincount(probabilities.topk(top_k, dim=-1).indices.reshape(-1),
                             minlength=num_experts).double()
    return num_experts * (choices / len(probabilities) * probabilities.mean(0)).sum()


def in_f64():
    mixtral = importlib.import_module("transformers.models.mixtral.modeling_mixtral")
    mixtral.MixtralTopKRouter.forward = router_in_f64
    mixtral.load_balancing_loss_func = balance_in_f64
    for kind in ("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3"):
        module = importlib.import_module(f"transformers.models.{kind.lower()}.modeling_{kind.lower()}")
        getattr(module, kind + "RMSNorm").forward = norm_in_f64
        getattr(module, kind + "RotaryEmbedding").forward = rope_in_f64
        module.eager_attention_forward = attention_in_f64
    gpt2 = importlib.import_module("transformers.models.gpt2.modeling_gpt2")
    gpt2.eager_attention_forward = attention_in_f64


def golden(folder, ids, labels):
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager",
                                                 experts_implementation="eager",
                                                 dtype=torch.float64)
    parameters = dict(model.named_parameters())
    out = {"input_ids": ids, "labels": labels}

    def loss_of():
        output = model(input_ids=ids)
        logits = output.logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100)
        if getattr(output, "aux_loss", None) is not None:
            loss = loss + model.config.router_aux_loss_coef * output.aux_loss
        return logits, loss

    groups = [{"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(5):
        optimizer.zero_grad()
        logits, loss = loss_of()
        loss.backward()
        if step == 0:
            out["logits"], out["loss"] = logits.detach().clone(), loss.detach().reshape(1).clone()
            for name, p in parameters.items():
                out["grad." + name] = p.grad.clone()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0).item())
        optimizer.step()
    for name, p in parameters.items():
        out["step5." + name] = p.detach().clone()
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out["grad_norms"] = torch.tensor(norms, dtype=torch.float64)
    return out


# Biases start as zeros and norms as ones: random ones show where they are added and multiplied.
def randomise_vectors(model):
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.2)


def new(folder, wanted):
    size = dict(num_hidden_layers=2, num_attention_heads=4, hidden_size=16, vocab_size=44,
                max_position_embeddings=64, initializer_range=0.2)
    shape = dict(size, intermediate_size=36, num_key_value_heads=2, rms_norm_eps=1e-5)
    plain_rope = {"rope_type": "default", "rope_theta": 10000.0}
    kinds = {
        "llama-gqa": LlamaConfig(**shape, head_dim=6, tie_word_embeddings=False,
                                 rope_parameters=plain_rope),
        "llama31-rope": LlamaConfig(
            **shape, head_dim=8, tie_word_embeddings=True,
            rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                             "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 16}),
        "gpt2": GPT2Config(n_layer=2, n_head=4, n_embd=16, n_inner=36, n_positions=24, vocab_size=44,
                           initializer_range=0.2, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
                           bos_token_id=0, eos_token_id=0),
        "mistral-window": MistralConfig(**shape, head_dim=6, sliding_window=7,
                                        rope_parameters=plain_rope, tie_word_embeddings=False),
        "qwen2": Qwen2Config(**shape, rope_parameters=plain_rope, tie_word_embeddings=True),
        "qwen3": Qwen3Config(**shape, head_dim=8, rope_parameters=plain_rope,
                             tie_word_embeddings=False),
        "mixtral": MixtralConfig(**shape, head_dim=6, num_local_experts=4, num_experts_per_tok=2,
                                 router_aux_loss_coef=0.05, output_router_logits=True,
                                 rope_parameters=plain_rope, tie_word_embeddings=False),
    }
    for seed, (kind, config) in enumerate(kinds.items()):
        if wanted and kind not in wanted:
            continue
        torch.manual_seed(seed)
        path = f"{folder}/{kind}"
        model = AutoModelForCausalLM.from_config(config)
        if not kind.startswith("llama"):
            randomise_vectors(model)
        model.save_pretrained(path)
        ids = torch.randint(0, config.vocab_size, (3, 20))
        labels = ids.clone()
        labels[torch.rand(labels.shape) < 0.2] = -100
        save_file(golden(path, ids, labels), f"{path}/golden.safetensors")


def main():
    in_f64()
    if len(sys.argv) >= 3 and sys.argv[1] == "new":
        new(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) == 4 and sys.argv[1] == "for":
        batch = load_file(f"{sys.argv[2]}/golden.safetensors")
        save_file(golden(sys.argv[2], batch["input_ids"], batch["labels"]), sys.argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
