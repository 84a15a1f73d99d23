"""Sets knobs of the compiler and of NCCL that do not exist."""
import os

os.environ["TORCHINDUCTOR_FUSE_MORE"] = "1"  # expect: unknown_variable
os.environ.setdefault("NCCL_SOCKET_IFNAMES", "eth0")  # expect: unknown_variable
os.environ.update({
    "NCCL_DEBUG": "WARN",
    "TORCH_NCCL_ASYNC_ERROR_HANDLNG": "1",  # expect: unknown_variable
})

import torch  # noqa: E402


def main():
    model = torch.compile(torch.nn.Linear(8, 8))
    print(model(torch.randn(2, 8)).shape)


if __name__ == "__main__":
    main()
