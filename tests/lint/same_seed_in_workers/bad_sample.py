import random

from PIL import Image
from torch.utils.data import Dataset


class Flipped(Dataset):
    def __init__(self, names, transform):
        self.names, self.transform = names, transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        random.seed(42)  # expect: same_seed_in_workers
        image = Image.open(self.names[index])
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return self.transform(image)
