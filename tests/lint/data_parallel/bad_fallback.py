"""DataParallel where there is no process group: worth a note."""
import torch
import torch.distributed as dist


def wrap(model, gpu):
    if dist.is_initialized():
        torch.cuda.set_device(gpu)
        model.cuda(gpu)
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
    return torch.nn.DataParallel(model).cuda()  # expect: data_parallel
