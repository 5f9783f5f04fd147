// python/loader.h as the class of _core that millrace.Loader uses.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "io/base/error.h"
#include "python/bind.h"
#include "python/loader.h"

namespace millrace::python {

namespace nb = nanobind;

namespace {

/// Rank, world, and the ranks that share this machine's cores.
using Ranks = std::tuple<int, int, int>;

Topology topology_of(const Ranks& ranks) {
  const auto [rank, world, sharers] = ranks;
  require(world >= 1 && rank >= 0 && rank < world,
          fmt::format("rank {} of world {}: a rank is from 0 to world - 1", rank, world));
  return {.process = rank, .processes = world, .node_processes = std::max(1, sharers)};
}

}  // namespace

void bind_loader(nb::module_& module) {
  nb::class_<Loader>(module, "Loader", "A pipeline that starts late, for millrace.Loader.")
      .def(
          "__init__",
          [](Loader* self, const PipelineArguments& options, bool bits, std::set<std::string> texts,
             nb::object allocate) {
            new (self)
                Loader(options, {.bits = bits, .texts = std::move(texts)}, std::move(allocate));
          },
          nb::arg("options"), nb::kw_only(), nb::arg("bits"), nb::arg("texts"),
          nb::arg("allocate").none())
      // Without a GIL, the loader's lock stands for it: given up while a call waits, as the GIL is.
      .def("begin", &Loader::begin, nb::lock_self())
      .def(
          "next",
          [](Loader& self, std::uint64_t number, const Ranks& ranks) {
            return self.next(number, topology_of(ranks));
          },
          nb::arg("number"), nb::arg("ranks"), nb::lock_self(),
          nb::sig("def next(self, number: int, ranks: tuple[int, int, int]) -> "
                  "tuple[dict[str, object], object] | None"))
      .def("claim", &Loader::claim, nb::arg("number"), nb::lock_self())
      .def("state", &Loader::state, nb::lock_self())
      .def("load", &Loader::load, nb::arg("states"), nb::lock_self())
      .def_prop_ro("epoch", &Loader::epoch, nb::lock_self())
      .def("set_epoch", &Loader::set_epoch, nb::arg("epoch"), nb::lock_self())
      .def(
          "length",
          [](Loader& self, const Ranks& ranks) { return self.length(topology_of(ranks)); },
          nb::arg("ranks"), nb::lock_self())
      .def_prop_ro("over", &Loader::is_over, nb::lock_self())
      .def(
          "masked_slots",
          [](Loader& self, const Ranks& ranks) { return self.masked_slots(topology_of(ranks)); },
          nb::arg("ranks"), nb::lock_self())
      .def_prop_ro("functions", &Loader::functions, nb::lock_self(),
                   nb::sig("def functions(self) -> FunctionPool | None"))
      .def("statistics", &Loader::statistics, nb::lock_self())
      .def(
          "ledger",
          [](const Loader& self) {
            return std::const_pointer_cast<wds::FaultLedger>(self.ledger());  // it has no setter
          },
          nb::lock_self())
      .def("begin_trace", &Loader::begin_trace, nb::arg("most_events"), nb::lock_self())
      .def("end_trace", &Loader::end_trace, nb::arg("path"), nb::lock_self())
      .def("close", &Loader::close, nb::lock_self());
}

}  // namespace millrace::python
