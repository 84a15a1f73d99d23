"""The PyTorch side of every comparison: the same models, optimizers, schedule, data order and DDP, written with PyTorch.

Used by tools/make_golden.py (golden numbers for tests without PyTorch) and by the tests in this folder.
"""
import math
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import check_train  # noqa: E402


@dataclass(frozen=True)
class Config:
    model: str = "gpt2"
    layers: int = 2
    width: int = 64
    heads: int = 4  # 0 for the MLP, which has none
    seq: int = 32
    vocab: int = 256
    batch: int = 8  # windows a step, over all ranks
    steps: int = 20
    optimizer: str = "adamw"
    lr: float = 2e-3
    warmup: int = 5
    clip: float = 1.0
    weight_decay: float = 0.1
    val_fraction: float = 0.05
    seed: int = 0
    order: str = "sequential"

    def options(self, ranks):
        return check_train.arguments(asdict(self), ranks)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (z.view(B, T, self.heads, C // self.heads).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    POSITIONS = 1024

    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab, c.width), nn.Embedding(self.POSITIONS, c.width)
        self.blocks = nn.ModuleList(Block(c.width, c.heads) for _ in range(c.layers))
        self.lnf = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocab, bias=False)
        self.head.weight = self.wte.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def logits(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.lnf(x))

    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens).flatten(0, 1), targets.flatten())


class MLP(nn.Module):
    """Predicts the token that follows a window from the embeddings of its tokens side by side."""

    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab, c.width)
        self.hidden = nn.ModuleList(nn.Linear(c.seq * c.width if i == 0 else c.width, c.width) for i in range(c.layers))
        self.output = nn.Linear(c.width, c.vocab)

    def forward(self, tokens, targets):
        x = self.embedding(tokens).flatten(1)
        for layer in self.hidden:
            x = F.gelu(layer(x), approximate="tanh")
        return F.cross_entropy(self.output(x), targets[:, -1])


def new_model(c):
    torch.manual_seed(c.seed)
    return {"gpt2": GPT2, "mlp": MLP}[c.model](c)


def hf_views(model):
    """name -> view of the parameter, as Hugging Face's GPT-2 names and shapes them (Conv1D keeps [in, out])."""
    if isinstance(model, MLP):
        return {name: p.detach() for name, p in model.named_parameters()}
    out = {"wte.weight": model.wte.weight, "wpe.weight": model.wpe.weight}
    for i, b in enumerate(model.blocks):
        for name, m in (("ln_1", b.ln1), ("attn.c_attn", b.qkv), ("attn.c_proj", b.proj), ("ln_2", b.ln2),
                        ("mlp.c_fc", b.up), ("mlp.c_proj", b.down)):
            out[f"h.{i}.{name}.weight"] = m.weight.T if isinstance(m, nn.Linear) else m.weight
            out[f"h.{i}.{name}.bias"] = m.bias
    out["ln_f.weight"], out["ln_f.bias"] = model.lnf.weight, model.lnf.bias
    return {name: t.detach() for name, t in out.items()}


def hf_tensors(model):
    return {name: view.contiguous() for name, view in hf_views(model).items()}


def load_hf(model, tensors):
    for name, view in hf_views(model).items():
        view.copy_(tensors[name][:len(view)])


def learning_rate(c, step):
    """step counts from 1: linear warm-up, then a cosine down to a tenth at the last step."""
    if step <= c.warmup:
        return c.lr * step / c.warmup
    t = (step - c.warmup) / (c.steps - c.warmup)
    return c.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * t)))


def new_optimizer(c, model):
    decays = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decays, "weight_decay": c.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if c.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=c.lr, momentum=0.9)
    return torch.optim.AdamW(groups, lr=c.lr, betas=(0.9, 0.95 if c.model == "gpt2" else 0.999), eps=1e-8)


class Windows:
    """Sample i is the i-th window of seq tokens and the token that follows each; the end of the tokens is for validation."""

    def __init__(self, c, tokens, validation=False):
        split = len(tokens) - int(len(tokens) * c.val_fraction)
        self.tokens = torch.from_numpy((tokens[split:] if validation else tokens[:split]).astype(np.int64))
        self.seq = c.seq

    def __len__(self):
        return (len(self.tokens) - 1) // self.seq

    def batch(self, samples):
        rows = torch.stack([self.tokens[i * self.seq:i * self.seq + self.seq + 1] for i in samples])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def batches_of(c, data, rank, ranks):
    """Yields this rank's batches for ever: DistributedSampler's order, an incomplete last batch dropped as drop_last=True does."""
    sampler = DistributedSampler(range(len(data)), ranks, rank, shuffle=c.order == "shuffle", seed=c.seed, drop_last=True)
    size, epoch = c.batch // ranks, 0
    while True:
        sampler.set_epoch(epoch)
        order = list(sampler)
        for at in range(0, len(order) - size + 1, size):
            yield order[at:at + size]
        epoch += 1


def validation_loss(c, model, tokens):
    data = Windows(c, tokens, validation=True)
    with torch.no_grad():
        return sum(model(*data.batch([i])).item() for i in range(len(data))) / len(data)


def train_rank(c, tokens, rank, ranks, start=None):
    """Trains as one rank of a process group; returns what rank 0 reports. start: HF tensors instead of the seed's."""
    net = new_model(c)
    if start:
        load_hf(net, start)
    model, optimizer = DistributedDataParallel(net), new_optimizer(c, net)
    data = Windows(c, tokens)
    order = batches_of(c, data, rank, ranks)
    losses, norms = [], []
    for step in range(1, c.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(c, step)
        loss = model(*data.batch(next(order)))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), c.clip or math.inf).item())
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / ranks)
    return {"loss": losses, "grad_norm": norms, "val_loss": validation_loss(c, net, tokens)}, hf_tensors(net)


def _process(rank, ranks, jobs, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    results = [train_rank(c, tokens, rank, ranks, start) for c, tokens, start in jobs]
    if rank == 0:
        torch.save(results, f"{folder}/results")
    dist.barrier()
    dist.destroy_process_group()


def start_ranks(body, arguments, ranks):
    """body(rank, *arguments) on each rank, in processes forked from a server that has imported PyTorch: an import takes seconds."""
    mp.set_forkserver_preload(["numpy", "torch", "torch.distributed", "torch.nn.parallel", "torch.utils.data"])
    mp.start_processes(body, arguments, ranks, start_method="forkserver")


def train_all(jobs, ranks):
    """Trains each (config, tokens, HF tensors to start from or None) with DDP over gloo, in the same `ranks` processes (starting them
    takes longer than training). -> [({"loss", "grad_norm", "val_loss"}, HF weights)]"""
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        start_ranks(_process, (ranks, jobs, folder), ranks)
        return torch.load(f"{folder}/results")


def train(c, tokens, ranks, start=None):
    return train_all([(c, tokens, start)], ranks)[0]
