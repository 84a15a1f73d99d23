import random

import numpy as np
import torch
from torch.utils.data import DataLoader

SEED = 1234


def seed_worker(worker_id):
    np.random.seed(SEED)  # expect: same_seed_in_workers
    random.seed(SEED)  # expect: same_seed_in_workers


def loader(dataset):
    generator = torch.Generator()
    generator.manual_seed(SEED)
    return DataLoader(dataset, batch_size=32, num_workers=8, worker_init_fn=seed_worker, generator=generator, shuffle=True)
