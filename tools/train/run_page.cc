#include "tools/train/run_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/hash.h"
#include "io/base/host.h"
#include "io/base/json.h"
#include "io/base/process_facts.h"
#include "io/opener.h"
#include "tools/report/gallery.h"
#include "tools/report/page.h"
#include "tools/shard_lists.h"
#include "tools/shell_word.h"
#include "tools/version.h"
#include "wds/printable_spec.h"

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
    json["specs"].push_back(wds::printable_spec(spec));
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

/// What a session is told by: counts, and a digest of the shards.
RecordJson counts_of(const RecordJson& set) {
  auto json = RecordJson::object();
  for (const char* count : {"samples", "epoch_samples"})
    if (set.contains(count)) json[count] = set[count];
  if (!set.contains("shards")) return json;
  const std::string shards =
      set["shards"].dump(-1, ' ', false, RecordJson::error_handler_t::replace);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(shards)));
  json["digest"] = hash.hex();
  return json;
}

/// As many sessions are kept.
constexpr std::size_t kMostSessions = 1000;

/// "millrace train 'set-{000..003}.tar' --epochs 3", for a shell; urls without their secrets.
std::string shown_command(const std::vector<std::string>& words) {
  std::string text = "millrace";
  for (std::size_t i = 1; i < words.size(); ++i)
    text += " " + shown_shell_word(wds::printable_spec(words[i]));
  return text;
}

std::string time_now() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

RunPage::RunPage(RunPageOptions options) : options_(std::move(options)) {}

void RunPage::on_fit_start() {
  if (options_.files == nullptr) return;
  has_started_ = true;
  keep_earlier_sessions();
  write_start();
}

void RunPage::write_start() const {
  options_.files->write(
      "run.json", options_.start.dump(1, ' ', false, RecordJson::error_handler_t::replace) + "\n");
}

// What an earlier run left was set aside: a run.json that is here is of this run's earlier
// sessions.
void RunPage::keep_earlier_sessions() {
  try {
    const std::optional<std::string> text = options_.files->read("run.json");
    if (!text) return;
    const auto earlier = parse_json<RecordJson>(*text, "run.json");
    RecordJson sessions = sessions_of(earlier);
    if (sessions.size() >= kMostSessions) sessions.erase(1);
    sessions.push_back(options_.start["sessions"].front());
    options_.start["sessions"] = std::move(sessions);
  } catch (const Error& error) {
    options_.log.warn("run.json does not say when the run began: " + fault_text(error));
  }
}

void RunPage::on_epoch_end(const trainer::EpochEvent& /*event*/) {
  keep_memory({peak_resident_memory()});
}

void RunPage::keep_memory(const std::vector<std::uint64_t>& peak_bytes) {
  if (!has_started_) return;
  keep_of_session("peak_bytes", peak_bytes);
}

void RunPage::keep_of_session(const char* name, const RecordJson& value) {
  options_.start["sessions"].back()[name] = value;
  write_start();
}

void RunPage::on_epoch_start(std::int64_t epoch) {
  if (!has_started_) return;
  if (!options_.start["sessions"].back().contains("first_epoch"))
    keep_of_session("first_epoch", epoch);
  if (Clock::now() < next_) return;
  draw();
  next_ = Clock::now() + kInterval;
}

void RunPage::draw() const {
  if (!has_started_ || !options_.files->is_on_disk()) return;
  try {
    const io::UrlOpener opener;  // without the run's stop, after which the page is drawn, too
    RunRecord run = read_run(opener, options_.files->folder());
    draw_pictures(run, {.opener = opener});
    options_.files->write("report.html", report_page({run}));
  } catch (const std::exception& error) {
    options_.log.warn("report.html is not drawn: " + fault_text(error));
  }
}

std::vector<std::uint64_t> peak_memory_of_all(trainer::Cluster& cluster) {
  const std::uint64_t own = peak_resident_memory();
  std::vector<std::uint64_t> all;
  for (const auto& bytes : cluster.all_gather(std::as_bytes(std::span(&own, 1)))) {
    MILLRACE_CHECK(bytes.size() == sizeof(own), "each process says one number");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(own));
  }
  return all;
}

RecordJson describe_start(const PageStart& start, const std::vector<PageData>& sets) {
  const Topology& topology = start.topology;
  RecordJson json{{"processes", topology.processes},
                  {"devices", topology.devices},
                  {"versions", versions()},
                  {"machine", {{"host", host_name()}}},
                  {"model", {{"name", start.model}, {"parameters", start.parameters}}}};
  json["sessions"].push_back({{"started", time_now()},
                              {"command", shown_command(start.words)},
                              {"host", host_name()},
                              {"processes", topology.processes},
                              {"devices", topology.devices}});
  json["data"] = RecordJson::object();
  for (const PageData& set : sets) {
    if (set.specs.empty()) continue;
    json["data"][set.name] = describe_set(set);
    json["sessions"].front()["data"][set.name] = counts_of(json["data"][set.name]);
  }
  return json;
}

}  // namespace millrace::tools
