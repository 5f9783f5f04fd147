// What the parts of the extension module define in it.
#pragma once

#include <nanobind/nanobind.h>

namespace millrace::python {

/// Exceptions of millrace as those of millrace/errors.py.
void bind_errors();
/// What the package itself checks arguments by.
void bind_arguments(nanobind::module_& module);
void bind_transforms(nanobind::module_& module);
/// Requires: bind_transforms().
void bind_fields(nanobind::module_& module);
/// Requires: bind_fields().
void bind_options(nanobind::module_& module);
void bind_functions(nanobind::module_& module);
void bind_shard_writer(nanobind::module_& module);
void bind_statistics(nanobind::module_& module);
void bind_ledger(nanobind::module_& module);
/// Requires: bind_options(), bind_functions(), bind_statistics(), bind_ledger().
void bind_loader(nanobind::module_& module);

}  // namespace millrace::python
