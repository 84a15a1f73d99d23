"""A small training by Accelerate under torchrun. Accelerate takes the process group that exists; by itself it would make gloo's."""
from job import answer, results_of


def fit(backend):
    import torch
    import torch.distributed as dist
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(11)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(90, 16)), batch_size=8, shuffle=True)
    model, optimizer, data = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=0.01), data)
    losses = []
    for _ in range(2):
        for (x,) in data:
            with accelerator.accumulate(model):
                loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    gathered = accelerator.gather_for_metrics(torch.tensor([losses[-1]])).tolist()
    objects = accelerator.gather_for_metrics([f"rank {accelerator.process_index}"], use_gather_object=True)
    weights = torch.cat([p.detach().flatten() for p in net.parameters()]).double().sum().item()
    rank = accelerator.process_index
    accelerator.wait_for_everyone()
    assert dist.get_backend() == backend
    accelerator.end_training()
    return {"rank": rank, "losses": losses, "gathered": gathered, "objects": objects, "weights": weights}


def test_accelerate_trains_as_over_gloo(tmp_path):
    own, other = (results_of(__file__, backend, tmp_path) for backend in ("tandem", "gloo"))
    assert own == other
    assert own[0]["weights"] == own[1]["weights"]
    assert own[0]["objects"] == ["rank 0", "rank 1"]


if __name__ == "__main__":
    answer(fit)
