"""tandem_torch.hooks: averages against computed ones and against PyTorch's own hooks. Each number of ranks is one set of processes."""
import gc
import traceback
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from given import SHAPES, drawn, model_of, of_all, plain_average, step
from powersgd_checks import POWERSGD, state_of
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.testing import assert_close

HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}


def rounded_average(values, half, group=None):
    """Rounded, summed in float32, rounded once more."""
    ranks = of_all(values, group)
    return [sum(value.to(half).float() for value in each).mul(torch.tensor(1) / len(ranks)).to(half).float() for each in zip(*ranks)]


def rounds_twice(rank, name, **options):
    from tandem_torch import hooks
    model = model_of(SHAPES, None, getattr(hooks, name), **options)
    for number in range(4):  # buckets are rebuilt after the first
        values = drawn(10 * number + rank)
        assert_close(step(model, values), rounded_average(values, HALVES[name]), rtol=0, atol=0)


def micro_batches_travel_once(rank):
    from tandem_torch import hooks
    model = model_of(SHAPES, dist.group.WORLD, hooks.bf16)
    for number in range(3):
        parts = [drawn(100 * number + 10 * part + rank) for part in range(3)]
        total = [a + b + c for a, b, c in zip(*parts)]
        assert_close(step(model, *parts), rounded_average(total, torch.bfloat16), rtol=0, atol=0)


def is_as_torchs_fp16(rank):
    from tandem_torch import hooks
    own, other = model_of(SHAPES, None, hooks.f16), model_of(SHAPES, None, default_hooks.fp16_compress_hook)
    for number in range(3):
        values = drawn(10 * number + rank)
        assert_close(step(own, values), step(other, values), rtol=4e-3, atol=2e-3)


def other_types_travel_as_they_are(rank):
    from tandem_torch import hooks
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        model = model_of(SHAPES, hooks.Feedback(), hooks.bf16, dtype=dtype)
        for number in range(2):
            values = drawn(10 * number + rank, dtype=dtype)
            assert_close(step(model, values), plain_average(values))
    torch.manual_seed(3)
    table = DDP(torch.nn.Embedding(20, 4, sparse=True))
    table.register_comm_hook(None, hooks.f16)
    table(torch.tensor([rank, 7])).sum().backward()
    expected = torch.zeros(20, 4)
    expected[7] = 1
    expected[:dist.get_world_size()] = 1 / dist.get_world_size()
    assert_close(table.module.weight.grad.to_dense(), expected)


def drift(model, values, steps):
    """How far the sum of the averages is from where it should be, in steps of bfloat16."""
    step(model, values)
    sums = [torch.zeros_like(value) for value in values]
    for _ in range(steps):
        for total, average in zip(sums, step(model, values)):
            total += average
    expected = plain_average(values, model.process_group)
    return max(((total - steps * value).abs() / value.abs().clamp(min=1e-3)).max().item() * 256 for total, value in zip(sums, expected))


def feedback_makes_up_for_rounding(rank):
    """A group of one: nothing but this rank's rounding."""
    from tandem_torch import hooks
    alone = [dist.new_group([r]) for r in range(dist.get_world_size())][rank]
    values = drawn(rank)
    assert drift(model_of(SHAPES, alone, hooks.bf16, group=alone), values, 40) > 15
    assert drift(model_of(SHAPES, hooks.Feedback(alone), hooks.bf16, group=alone), values, 40) < 2
    assert drift(model_of(SHAPES, hooks.Feedback(alone), hooks.f16, group=alone), values, 40) < 2


def feedback_helps_all_ranks(rank):
    """The rounding after the sum is nobody's, so less is made up for."""
    from tandem_torch import hooks
    same = drawn(1)
    assert drift(model_of(SHAPES, None, hooks.bf16), same, 40) > 15
    assert drift(model_of(SHAPES, hooks.Feedback(), hooks.bf16), same, 40) < 2


def feedback_follows_its_parameters(rank):
    from tandem_torch import hooks
    size = 4 * sum(value.numel() for value in drawn(0))
    state = hooks.Feedback()
    models = [model_of(SHAPES, state, hooks.bf16) for _ in range(2)]
    for number in range(4):  # one state, two models: each has its own
        for model in models:
            step(model, drawn(number + rank))
    assert state.nbytes == 2 * size  # and none of the buckets before they were rebuilt
    del model, models
    gc.collect()
    step(model_of(SHAPES, state, hooks.bf16), drawn(rank))
    assert state.nbytes == size  # the dead ones' went
    state.reset()
    assert state.nbytes == 0


def infinities_leave_nothing_behind(rank):
    from tandem_torch import hooks
    model = model_of(SHAPES, hooks.Feedback(), hooks.f16)
    values = drawn(rank)
    step(model, values), step(model, values)
    if rank == 0:
        values[0][0, 0] = 1e6
    assert step(model, values)[0][0, 0].isinf()
    for average in step(model, drawn(rank)):
        assert average.isfinite().all()


def steps_use_the_same_blocks(rank):
    """Of the shared heap, as many as there are buckets under way at once: not new ones in each step."""
    import tandem_torch
    shapes = [(300, 300)] * 6
    before = tandem_torch.heap_stats()["shares"]
    model = model_of(shapes, None, tandem_torch.hooks.bf16, bucket_cap_mb=0.5)
    values = drawn(rank, shapes)
    for _ in range(30):
        step(model, values)
    assert 0 < tandem_torch.heap_stats()["shares"] - before <= 3 * len(shapes)


def a_group_of_some_ranks(rank):
    from tandem_torch import hooks
    size = dist.get_world_size()
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        for state in (group, hooks.Feedback(group)):
            values = drawn(rank)
            model = model_of(SHAPES, state, hooks.bf16, group=group)
            assert_close(step(model, values), rounded_average(values, torch.bfloat16, group), rtol=0, atol=0)
    dist.barrier()


def joined_ranks_send_zeros(rank):
    from tandem_torch import hooks
    size = dist.get_world_size()
    model = model_of(SHAPES, None, hooks.bf16)
    with model.join():
        for number in range(2 + rank):
            step(model, [torch.ones(shape) for shape in SHAPES])
    last = model.module.weights[0].grad[0, 0].item()  # of a step that only the last rank makes
    assert rank < size - 1 or last == pytest.approx(1 / size, rel=2**-8)


def wrong_states_are_refused(rank):
    from tandem_torch import hooks
    for hook in (hooks.bf16, hooks.f16):
        with pytest.raises(TypeError, match="state must be None, a process group or a hooks.Feedback, not str"):
            step(model_of(SHAPES, "nonsense", hook), drawn(rank))


def a_missing_rank_is_an_error(rank):
    from tandem_torch import hooks
    for name in ("bf16", "powersgd"):
        group = dist.new_group(timeout=timedelta(seconds=0.5))
        state = group if name == "bf16" else state_of(2, group)
        model = model_of(SHAPES, state, getattr(hooks, name), group=group)
        step(model, drawn(rank))
        if rank == 0:
            with pytest.raises(dist.DistBackendError, match=" Timed out .*did not arrive"):
                step(model, drawn(rank))
        dist.barrier()
        dist.destroy_process_group(group)


CHECKS = {check.__name__: check for check in (
    micro_batches_travel_once, is_as_torchs_fp16, other_types_travel_as_they_are, feedback_makes_up_for_rounding,
    feedback_helps_all_ranks, feedback_follows_its_parameters, infinities_leave_nothing_behind, steps_use_the_same_blocks,
    a_group_of_some_ranks, joined_ranks_send_zeros, wrong_states_are_refused,
    a_missing_rank_is_an_error)}
CHECKS |= {f"{name}_rounds_twice": lambda rank, name=name: rounds_twice(rank, name) for name in HALVES}
CHECKS |= {f"{name}_in_bucket_views": lambda rank, name=name: rounds_twice(rank, name, gradient_as_bucket_view=True) for name in HALVES}
CHECKS |= {"in_one_bucket": lambda rank: rounds_twice(rank, "bf16", bucket_cap_mb=25)}
CHECKS |= POWERSGD


def body(rank):
    """Each check's error, or ""; a check ends on all ranks before the next begins."""
    found = {}
    for name, check in CHECKS.items():
        try:
            check(rank)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
        dist.barrier()
    return found


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    return on_ranks(request.param, body, limit_s=60)


@pytest.mark.parametrize("name", CHECKS)
def test_hook(found, name):
    assert [rank[name] for rank in found] == [""] * len(found)
