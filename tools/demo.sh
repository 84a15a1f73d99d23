#!/bin/sh
# demo.sh BUILD-DIR - trains a byte-level GPT (3.5 M parameters) on real text with one rank a core.
# DEMO_STEPS (800) makes it shorter. The run lies in runs/demo; the one before it is kept as runs/demo.previous.
set -eu

tandem=$1/tandem
steps=${DEMO_STEPS:-800}
run=runs/demo
text=data/bible.txt
tools/demo_data.sh "$text"

# Cores this shell may use; a container's quota may allow fewer.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
    allowed=$(((quota + period - 1) / period))
    [ "$allowed" -ge "$cores" ] || cores=$allowed
fi
# A step is 16 windows of 128 bytes over all ranks, or as near to 16 as equal parts come.
batch=$(((16 + cores / 2) / cores))
[ "$batch" -ge 1 ] || batch=1

if [ -e "$run" ]; then
    rm -rf "$run.previous"
    mv "$run" "$run.previous"
    echo "demo: the earlier run is now $run.previous"
fi

"$tandem" train gpt2 -n "$cores" --data "$text" --tokenizer bytes \
    --layers 4 --width 256 --heads 4 --seq 128 --vocab 256 --batch "$batch" --steps "$steps" \
    --lr 2e-3 --warmup 40 --schedule cosine --clip 1.0 --eval-every 100 --run "$run"

echo
echo "It goes on from any text:  $tandem generate --checkpoint $run --prompt 'And the LORD said unto '"
