// wds/fault_ledger.h as Python classes: what was skipped, and why.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "io/base/error.h"
#include "python/bind.h"
#include "wds/fault_ledger.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;
using wds::FaultLedger;
using Entry = FaultLedger::Entry;

void bind_entry(nb::module_& module) {
  nb::class_<Entry>(module, "Fault", "A sample, or the rest of a shard, that was skipped.")
      .def_prop_ro("url", [](const Entry& self) { return self.where.url; })
      .def_prop_ro("key", [](const Entry& self) { return self.where.key; })
      .def_prop_ro("member", [](const Entry& self) { return self.where.member; })
      .def_prop_ro("offset", [](const Entry& self) { return self.where.offset; })
      .def_prop_ro("code",
                   [](const Entry& self) { return std::string(error_code_name(self.code)); })
      .def_ro("message", &Entry::message)
      .def_ro("samples", &Entry::samples, "Samples that it cost, at least.")
      .def_ro("more", &Entry::more, "An unknown number of further samples is lost too.")
      .def("__repr__", [](const Entry& self) {
        return "<Fault: " + std::string(Error(self.code, self.message, self.where).what()) + ">";
      });
}

}  // namespace

void bind_ledger(nb::module_& module) {
  bind_entry(module);
  nb::class_<FaultLedger>(module, "Ledger", "What was read and skipped in one epoch.")
      .def_prop_ro("read", &FaultLedger::read, "Always emitted + skipped.")
      .def_prop_ro("emitted", &FaultLedger::emitted)
      .def_prop_ro("skipped", &FaultLedger::skipped)
      .def_prop_ro("refetched", &FaultLedger::refetched)
      .def_prop_ro("unknown_shards", &FaultLedger::unknown_shards)
      .def_prop_ro("warnings", &FaultLedger::warnings)
      .def_prop_ro("entries", &FaultLedger::entries, "The first 100,000 skips.")
      .def("__str__", &FaultLedger::skipped_text);
}

}  // namespace millrace::python
