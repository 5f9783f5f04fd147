// pipeline/statistics.h as Python classes, and as a table for notebooks.
#include "pipeline/statistics.h"

#include <fmt/format.h>
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
using pipeline::DecodedPictures;
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
      .def_ro("text", &Verdict::text,
              "\"input-bound by decode (98 % busy): the consumer waited 61.3 % of the time\"")
      .def("__str__", [](const Verdict& self) { return self.text; })
      .def("__repr__", [](const Verdict& self) { return "<Verdict: " + self.text + ">"; });
}

void bind_parts(nb::module_& module) {
  nb::class_<StageStatistics>(module, "StageStatistics", "What one stage of the pipeline did.")
      .def_ro("name", &StageStatistics::name, "\"read\", \"merge\", \"decode\", \"deliver\".")
      .def_ro("items", &StageStatistics::items, "Samples.")
      .def_ro("bytes", &StageStatistics::bytes, "Encoded bytes; of \"deliver\": batches' bytes.")
      .def_ro("busy", &StageStatistics::busy, "Summed over the stage's threads.")
      .def_ro("waiting", &StageStatistics::waiting,
              "How long it had nothing to do or was blocked, summed over its threads.")
      .def_ro("threads", &StageStatistics::threads, "Now.")
      .def_prop_ro("utilisation", &StageStatistics::utilisation,
                   "Share of its threads' time that the stage was busy, 0 to 1.")
      .def("__repr__", [](const StageStatistics& self) {
        return fmt::format("<StageStatistics: {}, {} samples, {} threads, {:.0f} % busy>",
                           self.name, self.items, self.threads, 100 * self.utilisation());
      });
  nb::class_<Tuning>(module, "Tuning", "What autotune chose.")
      .def_ro("on", &Tuning::on, "Whether it may choose.")
      .def_ro("readers", &Tuning::readers, "Threads that wait for disk and network.")
      .def_ro("decode_threads", &Tuning::decode_threads, "Threads that decode.")
      .def_ro("read_ahead", &Tuning::read_ahead, "Blocks read ahead of each stream.")
      .def_ro("text", &Tuning::text, "The same as a sentence, with the reason.")
      .def("__repr__", [](const Tuning& self) { return "<Tuning: " + self.text + ">"; });
}

void bind_pictures(nb::module_& module) {
  nb::class_<DecodedPictures>(module, "DecodedPictures",
                              "What decoding pictures cost, and what a cache of them holds.")
      .def_ro("decoded", &DecodedPictures::decoded, "Times that a picture was decoded.")
      .def_ro("decoded_bytes", &DecodedPictures::decoded_bytes,
              "Of these pictures as a whole, decoded.")
      .def_ro("decoding", &DecodedPictures::decoding, "Summed over threads.")
      .def_ro("found", &DecodedPictures::found, "Times that the cache had a picture.")
      .def_ro("kept", &DecodedPictures::kept, "Pictures in the cache.")
      .def_ro("kept_bytes", &DecodedPictures::kept_bytes, "What it holds.")
      .def_ro("cache_bytes", &DecodedPictures::cache_bytes,
              "What it may hold; 0: there is no cache.")
      .def_ro("set_bytes", &DecodedPictures::set_bytes,
              "What the pictures of all samples take, decoded; 0: not known.")
      .def("__repr__", [](const DecodedPictures& self) {
        return fmt::format("<DecodedPictures: {} decoded, {} found, {} kept>", self.decoded,
                           self.found, self.kept);
      });
}

std::string shown_statistics(const Statistics& statistics) {
  return fmt::format("<Statistics: {} batches, {} samples, {} masked slots, {} skipped; {}>",
                     statistics.batches, statistics.samples, statistics.masked, statistics.skipped,
                     statistics.verdict().text);
}

void bind_counters(nb::class_<Statistics>& bound) {
  bound.def_ro("stages", &Statistics::stages, "In the order in which samples pass them.")
      .def_ro("elapsed", &Statistics::elapsed, "Since the first batch was asked for.")
      .def_ro("consumer_wait", &Statistics::consumer_wait, "Of that, waiting for batches.")
      .def_ro("batches", &Statistics::batches, "Handed out.")
      .def_ro("samples", &Statistics::samples, "Valid slots handed out.")
      .def_ro("masked", &Statistics::masked, "Masked slots handed out.")
      .def_ro("dropped", &Statistics::dropped,
              "Samples left out: of an incomplete batch, or one that was cut off.")
      .def_ro("later_faults", &Statistics::later_faults,
              "Faults after the first, which was raised.")
      .def_ro("untidy", &Statistics::untidy,
              "Samples with a picture that was decoded although its file is untidy.")
      .def_ro("skipped", &Statistics::skipped,
              "Samples that Faults skipped, up to and including this epoch.")
      .def_ro("unknown_shards", &Statistics::unknown_shards,
              "Lost shards of unknown size, each of which `skipped` counts as one sample.")
      .def_ro(
          "refetched", &Statistics::refetched,
          "Samples and indexes that came damaged over the network and whole when fetched again.")
      .def_ro("samples_to_restore", &Statistics::samples_to_restore,
              "To be read again to go on from a state: they fill the shuffle buffers.")
      .def_ro("restored_samples", &Statistics::restored_samples, "Of these, so far.")
      .def_ro("restored_bytes", &Statistics::restored_bytes, "Read for them.")
      .def_ro("restore_time", &Statistics::restore_time, "How long the slowest stream took.")
      .def_ro("held_bytes", &Statistics::held_bytes, "Of encoded blocks and of batches, now.")
      .def_ro("peak_held_bytes", &Statistics::peak_held_bytes, "A bound of the most so far.");
}

}  // namespace

void bind_statistics(nb::module_& module) {
  bind_verdict(module);
  bind_parts(module);
  bind_pictures(module);
  nb::class_<Statistics> bound(module, "Statistics",
                               "Counters of a loader since its threads started.");
  bind_counters(bound);
  bound.def_ro("tuning", &Statistics::tuning, "What autotune chose.")
      .def_ro("pictures", &Statistics::pictures,
              "What decoding pictures cost, and what a cache of them holds.")
      .def_prop_ro(
          "about_pictures", &Statistics::about_pictures,
          "What a cache of decoded pictures holds or would bring, in a line; may be empty.")
      .def_prop_ro("verdict", &Statistics::verdict, "What limits the rate.")
      .def("since", &Statistics::since, nb::arg("earlier"),
           "The counters' increase since `earlier`, for example over an epoch.")
      .def("to_json", &Statistics::to_json, "All of it.")
      .def("__str__", &Statistics::to_text)
      .def("__repr__", &shown_statistics)
      .def("_repr_html_", &html_of);
}

}  // namespace millrace::python
