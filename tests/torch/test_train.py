"""`tandem train` and PyTorch DDP, the same model, weights, data and ranks: the same losses, norms and weights."""
import numpy as np
import pytest
import torch
from training import TOKENS
from reference import Config, hf_tensors, new_model
from reference import train as train_with_pytorch

TOLERANCE = 1e-5  # relative: both sum float32 in orders of their own
SMALL = Config(steps=3, lr=1e-3, warmup=1, seed=3)


def tokens():
    return np.fromfile(TOKENS, "<u2")


def same(mine, theirs, tolerance=TOLERANCE):
    assert mine == pytest.approx(theirs, rel=tolerance, abs=0)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_twenty_steps_of_a_wider_model_have_pytorchs_losses(train, ranks):
    config = Config(layers=4, width=128, heads=4, seq=64, batch=8, steps=20)
    run = train(config, ranks)
    theirs, weights = train_with_pytorch(config, tokens(), ranks)
    same(run.loss, theirs["loss"])
    same(run.grad_norm, theirs["grad_norm"], 1e-4)
    same(run.metrics[-1]["val_loss"], theirs["val_loss"])
    mine = run.weights(config.steps)
    for name, value in weights.items():
        # Adam's first steps divide by tiny second moments: a weight may differ by a part of one step.
        assert (mine[name] - value).abs().max() < 0.1 * config.lr, name


@pytest.mark.parametrize("seed", [0, 7, 1 << 40])
def test_initial_weights_are_pytorchs_bit_for_bit(train, seed):
    config = Config(layers=3, width=48, heads=3, seq=16, vocab=101, batch=4, steps=1, lr=0, warmup=0, weight_decay=0, seed=seed)
    mine = train(config, 1).weights(1)  # nothing moves at learning rate 0
    theirs = hf_tensors(new_model(config))
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.equal(mine[name].view(torch.int32), value.view(torch.int32)), name


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_a_hugging_face_file_is_where_training_starts(train, tmp_path, prefix):
    from safetensors.torch import save_file
    start = {name: torch.randn(value.shape, generator=torch.Generator().manual_seed(5)) * 0.05 + (".ln_" in name or name == "ln_f.weight")
             for name, value in hf_tensors(new_model(SMALL)).items()}
    file = tmp_path / "model.safetensors"
    # Hugging Face's own files also hold each block's causal mask.
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 1024, 1024).tril() for i in range(SMALL.layers)}
    save_file({prefix + name: value.contiguous() for name, value in (start | masks).items()}, file)
    theirs, _ = train_with_pytorch(SMALL, tokens(), 1, start=start)
    same(train(SMALL, 1, "--init", file).loss, theirs["loss"])


def test_a_checkpoint_has_hugging_faces_names_shapes_and_settings(train):
    import json
    run = train(SMALL, 2)
    shapes = {name: tuple(value.shape) for name, value in run.weights(SMALL.steps).items()}
    assert shapes == {name: tuple(value.shape) for name, value in hf_tensors(new_model(SMALL)).items()}
    assert shapes["h.0.attn.c_attn.weight"] == (64, 192) and shapes["h.1.mlp.c_proj.weight"] == (256, 64)
    settings = json.loads((run.checkpoint(SMALL.steps) / "config.json").read_text())
    wanted = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 1024, "vocab_size": 256,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    assert {name: settings.get(name) for name in wanted} == wanted


def test_a_resumed_run_goes_on_as_pytorch_would_have(train):
    config = Config(steps=12, order="shuffle", seed=2)
    theirs, _ = train_with_pytorch(config, tokens(), 2)
    run = train(config, 2, "--save-every", "5")
    import shutil
    from training import Run, run_tandem
    shutil.rmtree(run.checkpoint(12))  # as if it had ended after step 10
    done = run_tandem("train", *config.options(2), "--data", TOKENS, "--run", run.folder, "--save-every", "5", "--resume")
    assert done.returncode == 0, done.stderr
    again = Run(run.folder)
    assert [step["step"] for step in again.metrics] == list(range(1, 13))
    assert again.loss == run.loss
    same(again.loss, theirs["loss"])
