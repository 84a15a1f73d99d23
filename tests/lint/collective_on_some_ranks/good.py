"""All ranks meet: outside the condition, in both branches, in a group of their own, or one after the other."""
import torch
import torch.distributed as dist


def save(model, path, rank):
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()


def share(objects, rank):
    if rank == 0:
        dist.broadcast_object_list(objects, src=0)
    else:
        received = [None] * len(objects)
        dist.broadcast_object_list(received, src=0)
        objects = received
    return objects


def collect(tensor, rank, size):
    if rank == 0:
        parts = [torch.zeros_like(tensor) for _ in range(size)]
        dist.gather(tensor, gather_list=parts, dst=0)
        return parts
    dist.gather(tensor, dst=0)
    return None


def download_first(local_rank, load):
    if local_rank not in (-1, 0):
        dist.barrier()
    dataset = load()
    if local_rank == 0:
        dist.barrier()
    return dataset


def in_groups(tensor, rank, first):
    if rank in (0, 1):
        dist.all_reduce(tensor, group=first)
    return tensor


def single_process(rank, distributed):
    if distributed or rank == -1:
        print("one process or many")
    if rank != -1:
        dist.barrier()


def point_to_point(rank, tensor):
    if rank == 0:
        dist.send(tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor, src=0)
