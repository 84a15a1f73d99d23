"""Variables that are read by somebody, and variables of the script's own."""
# launch: NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=4 torchrun --nproc-per-node 8 train.py
# env: # a comment
# env: export TORCH_NCCL_ASYNC_ERROR_HANDLING="1"
# env: TORCH_LOGS=recompiles
# env: MY_TORCH_JOB=7
import os

os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
os.environ["NCCL_IB_TIMEOUT"] = "22"
os.environ["TORCH_EXPERIMENT_FOLDER_OF_MINE"] = "/tmp/x"
os.environ.setdefault("NCCL_NET_GDR_LEVEL", "PHB")
NAME = "NCCL_" + "SOMETHING"
os.environ[NAME] = "1"
settings = {"NCCL_NOT_SET_ANYWHERE": "1"}
print(os.environ.get("NCCL_NEVER_HEARD_OF"), settings)
