from torch.utils.data import BatchSampler, DataLoader, RandomSampler


def loader(dataset):
    batches = BatchSampler(RandomSampler(dataset), batch_size=32, drop_last=True)
    return DataLoader(dataset, batch_sampler=batches, shuffle=True, num_workers=2)  # expect: sampler_and_shuffle
