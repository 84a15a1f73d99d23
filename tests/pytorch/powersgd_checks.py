"""powersgd_checks.py - what test_hooks.py has its ranks do with tandem_torch.hooks.powersgd."""
import pickle

import pytest
import torch
import torch.distributed as dist
from given import SEVERAL_BUCKETS, SHAPES, drawn, model_of, of_all, plain_average, step
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.testing import assert_close


def state_of(limit=2, group=None, **options):
    options.setdefault("start_powerSGD_iter", 2)
    options.setdefault("min_compression_rate", 1)
    return powerSGD_hook.PowerSGDState(group, limit, **options)


def low_rank_model(state, shapes=SHAPES, **options):
    from tandem_torch import hooks
    return model_of(shapes, state, hooks.powersgd, **options)


def is_as_torchs_powersgd(rank, **options):
    """PyTorch's needs one bucket, and no scalars."""
    shapes = [shape for shape in SHAPES if shape]
    states = state_of(**options), state_of(**options)
    own = low_rank_model(states[0], shapes, bucket_cap_mb=25)
    other = model_of(shapes, states[1], powerSGD_hook.powerSGD_hook, bucket_cap_mb=25)
    for number in range(6):
        values = drawn(10 * number + rank, shapes)
        assert_close(step(own, values), step(other, values), rtol=1e-3, atol=1e-4)
    assert states[0].compression_stats() == states[1].compression_stats()
    assert states[0].iter == states[1].iter == 6


def what_was_not_sent_is_sent_later(rank, **options):
    model = low_rank_model(state_of(4), **options)
    sent, given = ([torch.zeros(shape) for shape in SHAPES] for _ in range(2))
    for number in range(60):
        values = drawn(10 * number + rank) if number < 5 else [torch.zeros(shape) for shape in SHAPES]
        for total, average in zip(sent, step(model, values)):
            total += average
        for total, average in zip(given, plain_average(values)):
            total += average
    assert_close(sent, given, rtol=1e-4, atol=1e-4)


def report_31_matrices_of_all_shapes(rank):
    shapes = {"square": (4, 4), "wide": (3, 100), "tall": (100, 3), "one": (1, 1), "zero": (30, 20), "row": (30, 20), "bias": (30,)}
    for limit in (1, 2, 4, 8):
        for cap in (SEVERAL_BUCKETS / 10, 25):
            state = state_of(limit)
            model = low_rank_model(state, shapes.values(), bucket_cap_mb=cap)
            exact = [min((*shape, limit + 1)) <= limit or len(shape) == 1 for shape in shapes.values()]
            for number in range(6):
                values = dict(zip(shapes, drawn(10 * number + rank, shapes.values())))
                values["zero"].zero_()
                values["row"] = drawn(rank, [(1, 20)])[0].repeat(30, 1) * (number + 1)
                expected = plain_average(list(values.values()))
                for name, is_exact, average, right in zip(shapes, exact, step(model, list(values.values())), expected):
                    assert average.isfinite().all()
                    if is_exact or name in ("zero", "row") or number < 2:
                        assert (average - right).norm() <= 1e-5 * right.norm(), (name, limit, number)


def bytes_are_those_that_travel(rank):
    state, sizes = state_of(2, min_compression_rate=0.1), []
    model = low_rank_model(state)
    for number in range(3):
        values = drawn(rank + number)
        with pytest.MonkeyPatch.context() as patch:
            reduce = dist.all_reduce
            patch.setattr(dist, "all_reduce", lambda tensor, *rest, **named: (sizes.append(tensor.numel()), reduce(tensor, *rest, **named))[1])
            step(model, values)
    whole = sum(value.numel() for value in values)
    matrices = (40 + 30) * 2 + 2 * (64 + 64) * 2 + (7 + 100) * 2 + (3 + 40) * 2
    assert state.compression_stats() == (whole / sum(sizes), whole, sum(sizes))
    assert sum(sizes) == matrices + 30 + 1 + 1


def two_hundred_steps_train(rank):
    from tandem_torch import hooks
    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    model = DDP(net, bucket_cap_mb=SEVERAL_BUCKETS)
    model.register_comm_hook(state_of(2), hooks.powersgd)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    draw = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(200):
        x = torch.randn(16, 32, generator=draw)
        loss = (model(x) - x[:, :4].sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert weights.isfinite().all() and sum(losses[-20:]) < 0.5 * sum(losses[:20])
    assert all(torch.equal(weights, other) for other in of_all(weights))


def one_that_overflows_is_seen_by_all_and_forgotten(rank):
    model = low_rank_model(state_of())
    for number in range(6):
        values = drawn(number + rank)
        if number == 3 and rank == 0:
            values[0][1, 2] = float("inf")
        averages = step(model, values)
        assert averages[0].isfinite().all() == (number != 3)
        assert all(average.isfinite().all() for average in averages[1:])


def a_training_taken_up_again_begins_plainly(rank):
    """The first steps of a model have other buckets than those that the state remembers."""
    state = state_of()
    for number in range(5):
        model = low_rank_model(state) if number == 0 else model
        step(model, drawn(number + rank))
    state = pickle.loads(pickle.dumps(state))
    model = low_rank_model(state)
    for number in range(4):
        values = drawn(number + rank)
        averages, plain = step(model, values), plain_average(values)
        is_plain = all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(averages, plain))
        assert is_plain == (number < 2)
    assert state.iter == 9


def a_backward_that_was_cut_off_leaves_nothing(rank):
    group = dist.new_group()
    state = state_of(2, group)
    model = low_rank_model(state, group=group)
    for number in range(4):
        step(model, drawn(number + rank))

    def fail(gradient):
        raise ArithmeticError("cut off")

    first = model.module.weights[0].register_hook(fail)  # its bucket is the last
    with pytest.raises(ArithmeticError):
        step(model, drawn(rank))
    first.remove()
    dist.destroy_process_group(group)
    state.process_group = None
    model = low_rank_model(state)
    for number in range(6):
        averages = step(model, drawn(number + rank))
        for average in averages:
            assert average.abs().max() < 20
        assert_close(averages, of_all(averages)[0], rtol=0, atol=0)


def powersgd_in_a_group_of_some_ranks(rank):
    size = dist.get_world_size()
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        shapes = [(20, 20)] * 8
        model = low_rank_model(state_of(1, group), shapes, group=group)
        for number in range(5):
            values = [left[:, :1] @ torch.ones(1, 20) for left in drawn(number + rank, shapes)]
            assert_close(step(model, values), plain_average(values, group), rtol=1e-4, atol=1e-5)
    dist.barrier()


def powersgd_joins_and_leaves_parameters_out(rank):
    model = low_rank_model(state_of(), find_unused_parameters=True)
    with model.join():
        for number in range(4 + rank):
            model.zero_grad()
            model(drawn(rank + number)[:3 + number % 3]).backward()
    assert all(weight.grad.isfinite().all() for weight in model.module.weights if weight.grad is not None)


def powersgd_takes_micro_batches(rank):
    values = [left[:, :1] @ torch.ones(1, 20) for left in drawn(rank, [(20, 20)] * 4)]
    model = low_rank_model(state_of(1, start_powerSGD_iter=3), [(20, 20)] * 4, gradient_as_bucket_view=True)
    for _ in range(5):
        assert_close(step(model, values, values), [2 * value for value in plain_average(values)], rtol=1e-4, atol=1e-5)


def other_types_are_not_compressed(rank):
    for dtype in (torch.float64, torch.bfloat16):
        model = low_rank_model(state_of(1), dtype=dtype)
        for number in range(4):
            values = drawn(number + rank, dtype=dtype)
            averages, plain = step(model, values), plain_average(values)
            assert (number < 2 or dtype == torch.bfloat16) == all(torch.allclose(a, b) for a, b in zip(averages, plain))


def unsafe_states_are_refused(rank):
    state = state_of()
    state.start_powerSGD_iter = 1
    with pytest.raises(ValueError, match="start_powerSGD_iter is 1, but DDP rebuilds its buckets after the first step"):
        step(low_rank_model(state), drawn(rank))
    with pytest.raises(ValueError, match="matrix_approximation_rank is 0"):
        step(low_rank_model(state_of(0)), drawn(rank))
    with pytest.raises(TypeError, match="must be PyTorch's PowerSGDState, not NoneType"):
        step(low_rank_model(None), drawn(rank))
    model = low_rank_model(state_of(start_powerSGD_iter=0, use_error_feedback=False, warm_start=False))  # safe
    for number in range(3):
        assert all(average.isfinite().all() for average in step(model, drawn(number + rank)))


POWERSGD = {check.__name__: check for check in (
    what_was_not_sent_is_sent_later, report_31_matrices_of_all_shapes, bytes_are_those_that_travel, two_hundred_steps_train,
    one_that_overflows_is_seen_by_all_and_forgotten, a_training_taken_up_again_begins_plainly,
    a_backward_that_was_cut_off_leaves_nothing, powersgd_in_a_group_of_some_ranks, powersgd_joins_and_leaves_parameters_out,
    powersgd_takes_micro_batches, other_types_are_not_compressed, unsafe_states_are_refused)}
AS_TORCHS = {
    "rank 1": {"limit": 1}, "rank 2": {}, "rank 4": {"limit": 4}, "stacked": {"batch_tensors_with_same_shape": True},
    "cold": {"warm_start": False}, "no feedback": {"use_error_feedback": False}, "rate 4": {"min_compression_rate": 4},
}
POWERSGD |= {f"powersgd_as_torchs, {name}": lambda rank, options=options: is_as_torchs_powersgd(rank, **options) for name, options in AS_TORCHS.items()}
POWERSGD |= {"powersgd_in_bucket_views": lambda rank: what_was_not_sent_is_sent_later(rank, gradient_as_bucket_view=True)}
