"""A loader with two options that DataLoader never had."""
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        with open(self.names[index], "rb") as file:
            return file.read(512)


def loader(names, batch):
    return DataLoader(
        Files(names),
        batch_size=batch,
        workers=8,  # expect: unknown_option
        pin_memory=True,
        prefetch=4,  # expect: unknown_option
    )
