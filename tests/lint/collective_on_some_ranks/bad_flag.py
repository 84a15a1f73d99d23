import torch
from torch.distributed import all_reduce, get_rank, get_world_size

is_main = get_rank() == 0


def log_loss(loss, step):
    if step % 100 == 0 and is_main:
        mean = loss.detach().clone()
        all_reduce(mean)  # expect: collective_on_some_ranks
        print(step, mean.item() / get_world_size())


def broadcast_seed(seed):
    if get_rank() != 0:
        return None
    value = torch.tensor([seed])
    torch.distributed.broadcast(value, src=0)  # expect: collective_on_some_ranks
    return value
