#!/usr/bin/env python3
"""HTA's side of bench/hta.py: hta_metrics.py TRACE-OR-FOLDER. Computes the metrics that `tandem doctor --hta` prints and says on stdout how
long what came after the four core ones took, and at which HTA raised."""
import json
import logging
import os
import sys
import time

from hta.trace_analysis import TraceAnalysis


def main():
    logging.disable(logging.CRITICAL)
    path = sys.argv[1]
    if os.path.isdir(path):
        analysis = TraceAnalysis(trace_dir=path)
    else:
        analysis = TraceAnalysis(trace_files=[path], trace_dir=os.path.dirname(path))
    ranks = sorted(analysis.t.traces)
    core = {
        "temporal_breakdown": lambda: analysis.get_temporal_breakdown(visualize=False),
        "comm_comp_overlap": lambda: analysis.get_comm_comp_overlap(visualize=False),
        "idle_time_breakdown": lambda: analysis.get_idle_time_breakdown(ranks=ranks, visualize=False),
        "kernel_breakdown_with_memory": lambda: analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True),
    }
    rest = {
        "kernel_breakdown_default": lambda: analysis.get_gpu_kernel_breakdown(visualize=False),
        "queue_length_summary": lambda: analysis.get_queue_length_summary(ranks=ranks),
        "blocked_on_full_queue": lambda: analysis.get_time_spent_blocked_on_full_queue(analysis.get_queue_length_time_series(ranks=ranks)),
        "memory_bw_summary": lambda: analysis.get_memory_bw_summary(ranks=ranks),
        "cuda_kernel_launch_stats": lambda: analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False),
        "gpu_user_annotation_breakdown": lambda: analysis.get_gpu_user_annotation_breakdown(visualize=False),
    }
    if len(ranks) > 1:
        rest["potential_stragglers"] = lambda: analysis.get_potential_stragglers()
    errors = {}

    def compute(metrics):
        for name, metric in metrics.items():
            try:
                metric()
            except Exception as error:  # it raises all sorts, assertions included
                errors[name] = type(error).__name__

    compute(core)
    began = time.perf_counter()
    compute(rest)
    print(json.dumps({"after_core_s": time.perf_counter() - began, "errors": errors}))


if __name__ == "__main__":
    main()
