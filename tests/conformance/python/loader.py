"""PyTorch's DataLoader over a Dataset that reads files, two epochs: loader.py CONTEXT:WORKERS[:persistent]…"""
import hashlib, os, sys

import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return index, hashlib.sha256(file.read()).hexdigest()


def main():
    for kind in sys.argv[1:]:
        context, workers, *persistent = kind.split(":")
        workers = int(workers)
        loader = DataLoader(
            Files("samples"),
            batch_size=4,
            shuffle=True,
            num_workers=workers,
            generator=torch.Generator().manual_seed(7),
            multiprocessing_context=context if workers else None,
            persistent_workers=bool(persistent),
        )
        for epoch in range(2):
            for indexes, sums in loader:
                for index, sum in zip(indexes.tolist(), sums):
                    print(kind, epoch, index, sum, flush=True)


if __name__ == "__main__":
    main()
