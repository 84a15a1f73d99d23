"""A program that meets once and ends, through torch.distributed over gloo."""
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
