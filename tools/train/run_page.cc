#include "tools/train/run_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <span>
#include <sstream>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/host.h"
#include "io/base/json.h"
#include "io/byte_sink.h"
#include "io/opener.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"
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
  if (set.samples > 0) json["epoch_samples"] = set.samples;
  const auto identity = set.feed != nullptr && is_local ? set.feed->identity() : std::nullopt;
  if (!identity) return json;
  std::uint64_t samples = 0;
  bool is_counted = !identity->shards.empty();
  json["shards"] = shards_of(*identity, samples, is_counted);
  if (is_counted) json["samples"] = samples;
  return json;
}

/// The times of as many sessions are kept.
constexpr std::size_t kMostSessions = 1000;

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
  keep_earlier_start();
  write("run.json",
        options_.start.dump(1, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

// What an earlier run left was set aside: a run.json that is here is of this run's earlier
// sessions.
void RunPage::keep_earlier_start() {
  const std::string path = options_.folder + "/run.json";
  if (!std::filesystem::exists(path)) return;
  try {
    constexpr std::size_t kMostBytes = std::size_t{16} << 20;
    const io::Bytes bytes = io::read_object(io::UrlOpener(), path, kMostBytes);
    const auto earlier = parse_json<RecordJson>(bytes.text(), "run.json");
    const std::string began = text_in(earlier, "started");
    if (began.empty()) return;
    auto resumed = member(earlier, "resumed");
    if (!resumed.is_array() || resumed.size() >= kMostSessions) resumed = RecordJson::array();
    resumed.push_back(options_.start["started"]);
    options_.start["started"] = began;
    options_.start["resumed"] = std::move(resumed);
  } catch (const Error& error) {
    options_.log.warn("run.json does not say when the run began: " + fault_text(error));
  }
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
    write("report.html", report_page({read_run(opener, options_.folder)}));
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
