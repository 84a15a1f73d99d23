/* module.cpp - what Python sees: tandem_torch._C. */
#include "allocator.h"
#include "bucket_names.h"
#include "codec.h"
#include "process_group.h"

#include <tandem/base.h>
#include <tandem/launch.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <map>

namespace {

c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, std::chrono::milliseconds timeout,
                                         const std::string &name, const std::vector<uint64_t> &global_ranks)
{
    const std::vector<int> ranks(global_ranks.begin(), global_ranks.end());
    auto options = c10::make_intrusive<c10d::Backend::Options>("tandem", timeout);
    options->group_name = name;
    options->global_ranks_in_group = global_ranks;
    auto group = tandem::Group::make(store, rank, size, timeout, name, ranks);
    return c10::make_intrusive<tandem::ProcessGroupTandem>(std::move(group), size, std::move(options));
}

/* Of torch's env:// variables those that the launcher of this process says in its own; {} if there is none. */
std::map<std::string, std::string> launcher_variables()
{
    tdm_launch_place place;
    if (tdm_launch_place_read(&place) != TDM_OK)
        return {};
    std::map<std::string, std::string> found = {{"RANK", std::to_string(place.rank)}, {"WORLD_SIZE", std::to_string(place.size)}};
    if (place.local_rank >= 0)
        found["LOCAL_RANK"] = std::to_string(place.local_rank);
    if (place.local_size > 0)
        found["LOCAL_WORLD_SIZE"] = std::to_string(place.local_size);
    if (place.host[0] != '\0') {
        found["MASTER_ADDR"] = place.host;
        found["MASTER_PORT"] = std::to_string(place.port);
    }
    return found;
}

/* Of the shared heap, in bytes and calls; {} without one. */
std::map<std::string, uint64_t> heap_numbers()
{
    if (tandem::tensor_heap() == nullptr)
        return {};
    const heap_stats stats = heap_look(tandem::tensor_heap());
    return {{"in_use", stats.in_use},   {"peak", stats.peak},   {"shared", stats.shared}, {"resting", stats.resting},
            {"takes", stats.takes}, {"gives", stats.gives}, {"shares", stats.shares}};
}

size_t trim_heap()
{
    return tandem::tensor_heap() != nullptr ? heap_trim(tandem::tensor_heap()) : 0;
}

std::shared_ptr<torch::jit::PythonFutureWrapper> average(const tandem::GroupPointer &group, const c10d::GradBucket &bucket,
                                                         std::optional<at::ScalarType> half, tandem::Residuals *residuals)
{
    c10::IValue result = torch::jit::toIValue(py::cast(bucket.getBuffer()), c10::PyObjectType::get());
    const py::gil_scoped_release without_gil;
    return std::make_shared<torch::jit::PythonFutureWrapper>(tandem::average(group, bucket, half, residuals, std::move(result)));
}

} // namespace

PYBIND11_MODULE(_C, module)
{
    const py::call_guard<py::gil_scoped_release> without_gil;
    using Class = tandem::ProcessGroupTandem;
    py::class_<Class, c10::intrusive_ptr<Class>>(module, "ProcessGroupTandem", py::module::import("torch._C._distributed_c10d").attr("Backend"))
        .def_property_readonly("options", &Class::getBackendOptions)
        .def("_set_default_timeout", &Class::setTimeout, without_gil);
    module.def("create", &create, without_gil);
    module.def("install_allocator", &tandem::install_allocator);
    module.def("heap_stats", &heap_numbers);
    module.def("heap_trim", &trim_heap);
    module.def("heap_holds", [](const at::Tensor &tensor) {
        return tandem::tensor_heap() != nullptr && heap_holds(tandem::tensor_heap(), tensor.const_data_ptr());
    });
    py::class_<tandem::Residuals>(module, "Residuals")
        .def(py::init<>())
        .def("forget", &tandem::Residuals::forget)
        .def("bytes", &tandem::Residuals::bytes);
    module.def("average", &average);
    module.def("set_bucket_names", &tandem::set_bucket_names);
    module.def("forget_bucket_names", &tandem::forget_bucket_names);
    module.def("at_exit", &tandem::stop_all_workers, without_gil);
    module.def("launcher_variables", &launcher_variables);
    module.def("version", &tdm_version);
}
