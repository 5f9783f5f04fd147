// Each Error becomes the exception of millrace/errors.py that has its code's name.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "io/base/error.h"
#include "python/bind.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;

void raise(const Error& error) {
  const Where& where = error.where();
  const nb::object made =
      nb::module_::import_("millrace.errors")
          .attr("_from_core")(std::string(error_code_name(error.code())), error.what(),
                              error.message(), where.url, where.key, where.member, where.offset,
                              where.stage);
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

void translate(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    try {
      raise(error);
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

}  // namespace

void bind_errors() { nb::register_exception_translator(translate); }

}  // namespace millrace::python
