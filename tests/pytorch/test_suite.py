"""A selection of the tests that PyTorch's wheel carries (suite/run_suite.py runs them all), and the runner itself."""
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parent / "suite"
sys.path.insert(0, str(SUITE))
import run_suite  # noqa: E402

FEW = """test_Backend_enum_class test_DistributedDataParallelCPU test_accumulate_gradients_no_sync
    test_all_gather_coalesced_simple test_all_gather_object_subgroup test_all_reduce_coalesced_full_group_max
    test_all_reduce_complex_unsupported_ops test_all_reduce_sum_async test_all_to_all_single_unequal_split
    test_barrier_timeout_full_group test_batch_isend_irecv_gloo_tags test_broadcast test_ddp_create_graph test_destroy_full_group
    test_gather_checks test_irecv test_monitored_barrier_gloo test_reduce_full_group_min test_scatter_object_list
    test_send_recv_any_source_torch_profiler test_sparse_all_reduce_sum test_static_graph_api_cpu""".split()


def run(tmp_path, *options):
    done = subprocess.run([sys.executable, SUITE / "run_suite.py", "--logs", tmp_path / "logs", *options], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_tandem_passes_a_selection_of_each_kind(tmp_path):
    code, text = run(tmp_path, "--world-size", "3", *(word for name in FEW for word in ("-k", name)))
    assert code == 0, text
    assert f"# tandem: {len(FEW) - 1} passed, 0 failed, 0 skipped, 1 known" in text


def test_the_runner_tells_pass_from_skip(tmp_path):
    code, text = run(tmp_path, "--world-size", "3", "--backend", "gloo", "-k", "test_get_rank", "-k", "test_destroy_group")
    assert code == 0 and "# gloo: 2 passed, 0 failed, 0 skipped, 0 known" in text, text


@pytest.mark.parametrize("word, listed, judged", [
    ("pass", False, "pass"), ("fail", False, "fail"), ("skip", False, "fail"),
    ("pass", True, "fail"), ("fail", True, "known"), ("skip", True, "known")])
def test_an_entry_of_the_skip_list_must_not_pass(word, listed, judged):
    assert run_suite.judge(word, "name", {"name": "why"} if listed else {}) == judged


def test_the_lists_name_tests_that_exist():
    names = set(run_suite.cpu_tests())
    passed = {world: set(run_suite.passed(world)) for world in (3, 4, 8)}
    assert all(tests <= names for tests in passed.values())
    for world in (3, 4, 8):
        assert set(run_suite.skips("tandem", world)) <= set.union(*passed.values())
