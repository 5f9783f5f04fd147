// wds/fault_ledger.h as Python classes: what was skipped, and why.
#include <fmt/format.h>
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
      .def_prop_ro(
          "url", [](const Entry& self) { return self.where.url; }, "The shard.")
      .def_prop_ro(
          "key", [](const Entry& self) { return self.where.key; }, "The sample's; empty: unknown.")
      .def_prop_ro(
          "member", [](const Entry& self) { return self.where.member; },
          "The member of the shard; empty: unknown.")
      .def_prop_ro(
          "offset", [](const Entry& self) { return self.where.offset; },
          "The byte in the shard; None: unknown.")
      .def_prop_ro(
          "code", [](const Entry& self) { return std::string(error_code_name(self.code)); },
          "\"Corrupt\", \"Truncated\": of the Error that on_fault=\"fail\" raises.")
      .def_ro("message", &Entry::message, "What is wrong, without code and place.")
      .def_ro("samples", &Entry::samples, "Samples that it cost, at least.")
      .def_ro("more", &Entry::more, "An unknown number of further samples is lost too.")
      .def("__repr__", [](const Entry& self) {
        return "<Fault: " + std::string(Error(self.code, self.message, self.where).what()) + ">";
      });
}

/// A lost shard of unknown size is counted as one sample, which the numbers alone would hide.
std::string ledger_text(const FaultLedger& ledger) {
  std::string text = fmt::format("<Ledger: {}{} read, {} emitted, {} skipped",
                                 ledger.unknown_shards() > 0 ? "at least " : "", ledger.read(),
                                 ledger.emitted(), ledger.skipped_text());
  if (ledger.filtered() > 0) text += fmt::format("; {} filtered out", ledger.filtered());
  if (ledger.refetched() > 0) text += fmt::format("; {} refetched", ledger.refetched());
  return text + ">";
}

}  // namespace

void bind_ledger(nb::module_& module) {
  bind_entry(module);
  nb::class_<FaultLedger>(module, "Ledger", "What was read and skipped in one epoch.")
      .def_prop_ro("read", &FaultLedger::read, "Always emitted + skipped.")
      .def_prop_ro("emitted", &FaultLedger::emitted, "Samples read whole.")
      .def_prop_ro("skipped", &FaultLedger::skipped, "Samples lost.")
      .def_prop_ro("filtered", &FaultLedger::filtered,
                   "Samples that a filter left out, neither read nor skipped.")
      .def_prop_ro("refetched", &FaultLedger::refetched,
                   "Samples and indexes that were whole when fetched again: they cost nothing.")
      .def_prop_ro("unknown_shards", &FaultLedger::unknown_shards,
                   "Lost shards of unknown size, each of which `skipped` counts as one sample.")
      .def_prop_ro("warnings", &FaultLedger::warnings, "Oddities that cost no sample.")
      .def_prop_ro("entries", &FaultLedger::entries, "The first 100,000 skips.")
      .def("__repr__", &ledger_text);
}

}  // namespace millrace::python
