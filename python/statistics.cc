// pipeline/statistics.h as Python classes, and as a table for notebooks.
#include "pipeline/statistics.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/chrono.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "python/bind.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;
using pipeline::Bound;
using pipeline::StageStatistics;
using pipeline::Statistics;
using pipeline::Tuning;
using pipeline::Verdict;

const char* bound_word(Bound bound) {
  if (bound == Bound::kInput) return "input";
  return bound == Bound::kConsumer ? "consumer" : "unknown";
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string with_digits(const char* format, double value) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, format, value);
  return {text, static_cast<std::size_t>(length)};
}

/// Names of stages and verdicts are millrace's own words: nothing is to be escaped.
std::string html_of(const Statistics& statistics) {
  std::string html =
      "<table><thead><tr><th>stage</th><th>samples</th><th>MB</th><th>threads</th><th>busy</th>"
      "</tr></thead><tbody>";
  for (const StageStatistics& stage : statistics.stages)
    html += "<tr>" + cell(stage.name) + cell(std::to_string(stage.items)) +
            cell(with_digits("%.1f", 1e-6 * static_cast<double>(stage.bytes))) +
            cell(std::to_string(stage.threads)) +
            cell(with_digits("%.0f %%", 100 * stage.utilisation())) + "</tr>";
  return html + "</tbody></table><p>" + statistics.verdict().text + "</p>";
}

void bind_verdict(nb::module_& module) {
  nb::class_<Verdict>(module, "Verdict", "Whether the input or its consumer limits the rate.")
      .def_prop_ro(
          "bound", [](const Verdict& self) { return bound_word(self.bound); },
          "\"input\", \"consumer\", or \"unknown\" before the first batch.")
      .def_ro("stage", &Verdict::stage, "The busiest stage, when input-bound.")
      .def_ro("wait_share", &Verdict::wait_share,
              "Share of the time that the consumer waited for batches, 0 to 1.")
      .def_ro("text", &Verdict::text)
      .def("__str__", [](const Verdict& self) { return self.text; })
      .def("__repr__", [](const Verdict& self) { return "<Verdict: " + self.text + ">"; });
}

void bind_parts(nb::module_& module) {
  nb::class_<StageStatistics>(module, "StageStatistics", "What one stage of the pipeline did.")
      .def_ro("name", &StageStatistics::name)
      .def_ro("items", &StageStatistics::items)
      .def_ro("bytes", &StageStatistics::bytes)
      .def_ro("busy", &StageStatistics::busy, "Summed over the stage's threads.")
      .def_ro("waiting", &StageStatistics::waiting, "Summed over the stage's threads.")
      .def_ro("threads", &StageStatistics::threads)
      .def_prop_ro("utilisation", &StageStatistics::utilisation,
                   "Share of its threads' time that the stage was busy, 0 to 1.");
  nb::class_<Tuning>(module, "Tuning", "What autotune chose.")
      .def_ro("on", &Tuning::on)
      .def_ro("readers", &Tuning::readers)
      .def_ro("decode_threads", &Tuning::decode_threads)
      .def_ro("read_ahead", &Tuning::read_ahead)
      .def_ro("text", &Tuning::text);
}

}  // namespace

void bind_statistics(nb::module_& module) {
  bind_verdict(module);
  bind_parts(module);
  nb::class_<Statistics>(module, "Statistics", "Counters of a loader since its threads started.")
      .def_ro("stages", &Statistics::stages)
      .def_ro("elapsed", &Statistics::elapsed)
      .def_ro("consumer_wait", &Statistics::consumer_wait)
      .def_ro("batches", &Statistics::batches)
      .def_ro("samples", &Statistics::samples)
      .def_ro("masked", &Statistics::masked)
      .def_ro("dropped", &Statistics::dropped)
      .def_ro("later_faults", &Statistics::later_faults)
      .def_ro("untidy", &Statistics::untidy)
      .def_ro("skipped", &Statistics::skipped)
      .def_ro("unknown_shards", &Statistics::unknown_shards)
      .def_ro("refetched", &Statistics::refetched)
      .def_ro("restored_samples", &Statistics::restored_samples)
      .def_ro("restored_bytes", &Statistics::restored_bytes)
      .def_ro("restore_time", &Statistics::restore_time)
      .def_ro("held_bytes", &Statistics::held_bytes)
      .def_ro("peak_held_bytes", &Statistics::peak_held_bytes)
      .def_ro("tuning", &Statistics::tuning)
      .def_prop_ro("verdict", &Statistics::verdict)
      .def("since", &Statistics::since, nb::arg("earlier"),
           "The counters' increase since `earlier`, for example over an epoch.")
      .def("to_json", &Statistics::to_json)
      .def("__str__", &Statistics::to_text)
      .def("_repr_html_", &html_of);
}

}  // namespace millrace::python
