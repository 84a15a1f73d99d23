/* module.cpp - what Python sees: tandem_torch._C. */
#include "process_group.h"

#include <tandem/base.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

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

} // namespace

PYBIND11_MODULE(_C, module)
{
    const py::call_guard<py::gil_scoped_release> without_gil;
    using Class = tandem::ProcessGroupTandem;
    py::class_<Class, c10::intrusive_ptr<Class>>(module, "ProcessGroupTandem", py::module::import("torch._C._distributed_c10d").attr("Backend"))
        .def_property_readonly("options", &Class::getBackendOptions)
        .def("_set_default_timeout", &Class::setTimeout, without_gil);
    module.def("create", &create, without_gil);
    module.def("at_exit", &tandem::stop_all_workers, without_gil);
    module.def("version", &tdm_version);
}
