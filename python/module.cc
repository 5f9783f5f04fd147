// millrace._core: the loader for Python, as the package millrace/ uses it.
#include <nanobind/nanobind.h>

#include <cstdlib>

#include "python/bind.h"

NB_MODULE(_core, module) {
  // Libraries that keep references to a user's modules would make it warn of every options object
  // in them. For tests.
  nanobind::set_leak_warnings(std::getenv("MILLRACE_LEAK_WARNINGS") != nullptr);
  module.doc() = "The C++ part of millrace: options, and the loader of batches.";
  millrace::python::bind_errors();
  millrace::python::bind_arguments(module);
  millrace::python::bind_transforms(module);
  millrace::python::bind_fields(module);
  millrace::python::bind_options(module);
  millrace::python::bind_functions(module);
  millrace::python::bind_statistics(module);
  millrace::python::bind_ledger(module);
  millrace::python::bind_loader(module);
  millrace::python::bind_shard_writer(module);
}
