#include "tools/train/run_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <sstream>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/host.h"
#include "io/byte_sink.h"
#include "io/opener.h"
#include "tools/report/gallery.h"
#include "tools/report/page.h"
#include "tools/shard_lists.h"
#include "tools/version.h"

namespace millrace::tools {
namespace {

/// Each line of --version, "compiler:  GCC 12.2.0", as a name and a value.
RecordJson versions() {
  auto json = RecordJson::object();
  std::istringstream text(version_text());
  for (std::string line; std::getline(text, line);) {
    const std::size_t end = std::min(line.find_first_of(": "), line.size());
    const std::size_t value = std::min(line.find_first_not_of(": ", end), line.size());
    json[line.substr(0, end)] = line.substr(value);
  }
  return json;
}

RecordJson shards_of(const pipeline::DataIdentity& identity, std::uint64_t& samples,
                     bool& is_counted) {
  auto shards = RecordJson::array();
  for (const pipeline::ShardIdentity& one : identity.shards) {
    RecordJson shard{{"name", one.name}};
    if (one.samples) shard["samples"] = *one.samples;
    if (one.bytes) shard["bytes"] = *one.bytes;
    if (!one.sha256.empty()) shard["sha256"] = one.sha256;
    if (!one.checksum.empty()) shard["checksum"] = one.checksum;
    is_counted = is_counted && one.samples.has_value();
    samples += one.samples.value_or(0);
    shards.push_back(std::move(shard));
  }
  return shards;
}

RecordJson describe_set(const PageData& set) {
  auto json = RecordJson::object();
  bool is_local = true;
  for (const std::string& spec : set.specs) {
    json["specs"].push_back(printable_spec(spec));
    // One with a weight, "2:http://...", begins otherwise.
    is_local = is_local && !io::is_network_url(spec) && spec.find("://") == std::string::npos;
  }
  const auto identity = set.feed != nullptr && is_local ? set.feed->identity() : std::nullopt;
  if (!identity) return json;
  std::uint64_t samples = 0;
  bool is_counted = !identity->shards.empty();
  json["shards"] = shards_of(*identity, samples, is_counted);
  if (is_counted) json["samples"] = samples;
  return json;
}

std::string time_now() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

RunPage::RunPage(RunPageOptions options) : options_(std::move(options)) {}

bool RunPage::is_on() const {
  return !options_.folder.empty() && !io::is_network_url(options_.folder);
}

void RunPage::on_fit_start() {
  if (!is_on()) return;
  has_started_ = true;
  write("run.json",
        options_.start.dump(1, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

void RunPage::on_epoch_start(std::int64_t /*epoch*/) {
  if (!has_started_ || Clock::now() < next_) return;
  draw();
  next_ = Clock::now() + kInterval;
}

void RunPage::draw() const {
  if (!has_started_) return;
  try {
    const io::UrlOpener opener;  // without the run's stop, after which the page is drawn, too
    RunRecord run = read_run(opener, options_.folder);
    draw_pictures(run, {.opener = opener});
    write("report.html", report_page({run}));
  } catch (const std::exception& error) {
    options_.log.warn("report.html is not drawn: " + fault_text(error));
  }
}

void RunPage::write(const std::string& name, const std::string& text) const {
  const auto sink =
      io::open_file_sink(options_.folder + "/" + name, {.replace = io::Replace::kAtomically});
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

RecordJson describe_start(const Topology& topology, const std::vector<PageData>& sets) {
  RecordJson json{{"started", time_now()},
                  {"processes", topology.processes},
                  {"devices", topology.devices},
                  {"versions", versions()},
                  {"machine", {{"host", host_name()}}}};
  json["data"] = RecordJson::object();
  for (const PageData& set : sets)
    if (!set.specs.empty()) json["data"][set.name] = describe_set(set);
  return json;
}

}  // namespace millrace::tools
