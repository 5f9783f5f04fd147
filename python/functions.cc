// python/function_pool.h as the class of _core that millrace/_function_processes.py uses.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "python/bind.h"
#include "python/function_pool.h"

namespace millrace::python {

namespace nb = nanobind;

void bind_functions(nb::module_& module) {
  nb::class_<FunctionPool>(module, "FunctionPool", "The processes of a loader's functions.")
      .def("add", &FunctionPool::add, nb::arg("socket"), nb::arg("memory"), nb::arg("pid"),
           "Takes both descriptors over.")
      .def_prop_ro("processes", &FunctionPool::num_processes)
      .def_prop_ro("failed", &FunctionPool::has_failed)
      .def("traceback", &FunctionPool::traceback, nb::arg("key"))
      .def("close", &FunctionPool::close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace millrace::python
